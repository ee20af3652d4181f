"""What proposes tokens for several texts at once: a model in shared passes, or a drafter for each.

For texts b: k[b] is how many tokens are asked for, and what is drawn comes from generators[b].
"""
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from decoding.drafters.interface import Drafter, propose
from decoding.random import Generator
from decoding.sampling import Sampling, choose, to_probs
from model import Decoder
from model.batch_cache import BatchCache, admit, read_texts

Draft = tuple[Tensor, Tensor]  # of one text: ids (k,), and the rows q (k, n_vocab) they come from


class BatchDrafter(Protocol):
    """What the batched loop asks of a drafter. n_ctx: the longest text it can continue."""

    @property
    def n_ctx(self) -> float: ...

    def admit(self, prompts: list[list[int]]) -> None:
        """Add texts after those that are here. Their prompts may be read but for the last token."""

    def propose(self, texts: list[list[int]], k: list[int], sampling: Sampling,
                generators: list[Generator]) -> list[Draft]:
        """Return for each text at most k[b] ids that may follow it, and their q."""
        ...

    def rewind(self, lengths: list[int]) -> Sequence[tuple[int, int] | None]:
        """Forget what was read beyond each text's length; see `Drafter.rewind`."""
        ...

    def select(self, texts: list[int]) -> None:
        """Keep these texts only, in their old order."""


class BatchModelDrafter:
    """Writes the next token of every text in one pass, k times. See `ModelDrafter`.

    Each pass waits for the ids of the one before, since texts are filled up on the host.
    """

    def __init__(self, model: Decoder, capacity: int, at_once: int) -> None:
        self.model, self.n_ctx = model, model.config.n_ctx
        self.cache = BatchCache(model.new_cache(capacity, at_once))

    def admit(self, prompts: list[list[int]]) -> None:
        # After a longer prompt the draft is never asked.
        admit(self.model, self.cache, [ids if len(ids) <= self.n_ctx else [] for ids in prompts])

    def propose(self, texts: list[list[int]], k: list[int], sampling: Sampling,
                generators: list[Generator]) -> list[Draft]:
        drafted: list[list[int]] = [[] for _ in texts]
        q: list[list[Tensor]] = [[] for _ in texts]
        for i in range(max(k)):
            asked = [i < n for n in k]  # a text with less room rests: it reads and draws nothing
            unread = [(text + ids)[length:] if wanted else [] for text, ids, length, wanted
                      in zip(texts, drafted, self.cache.lengths, asked)]
            logits = read_texts(self.model, self.cache, unread, last=[int(a) for a in asked])
            rows = to_probs(logits, sampling).split(1)  # of the texts asked, (1, n_vocab) each
            drafting = [b for b, wanted in enumerate(asked) if wanted]
            tokens = [choose(row, sampling, generators[b]) for b, row in zip(drafting, rows)]
            for b, row, token in zip(drafting, rows, torch.cat(tokens).tolist()):
                drafted[b].append(token)
                q[b].append(row)
        nothing = torch.empty(0, self.model.config.n_vocab)
        return [(torch.tensor(ids, dtype=torch.long), torch.cat(rows) if rows else nothing)
                for ids, rows in zip(drafted, q)]

    def rewind(self, lengths: list[int]) -> list[tuple[int, int]]:
        return rewind_texts(self.cache, lengths)

    def select(self, texts: list[int]) -> None:
        self.cache.select(texts)


class DrafterForEach:
    """An ordinary drafter for each text.

    make: returns a new one; all of them have the same n_ctx.
    capacity: the most tokens of a text.
    """

    def __init__(self, make: Callable[[], Drafter], n_vocab: int, capacity: int) -> None:
        self.make, self.n_vocab, self.capacity = make, n_vocab, capacity
        self.n_ctx = make().n_ctx
        self.drafters: list[Drafter] = []

    def admit(self, prompts: list[list[int]]) -> None:
        for prompt in prompts:
            self.drafters.append(self.make())
            self.drafters[-1].start(prompt, self.capacity)

    def propose(self, texts: list[list[int]], k: list[int], sampling: Sampling,
                generators: list[Generator]) -> list[Draft]:
        return [propose(drafter, text, n, self.n_vocab, sampling, generator)
                for drafter, text, n, generator in zip(self.drafters, texts, k, generators)]

    def rewind(self, lengths: list[int]) -> list[tuple[int, int] | None]:
        return [drafter.rewind(length) for drafter, length in zip(self.drafters, lengths)]

    def select(self, texts: list[int]) -> None:
        self.drafters = [self.drafters[b] for b in texts]


def rewind_texts(cache: BatchCache, lengths: list[int]) -> list[tuple[int, int]]:
    """Forget what lies beyond each text's length. Returns the lengths before and after."""
    before = cache.lengths
    cache.truncate(lengths)
    return list(zip(before, cache.lengths))
