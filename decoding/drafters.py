"""What proposes tokens. A drafter has

    n_ctx                                     the longest text it can continue
    start(prompt, capacity)                   forget everything; get ready for a text of up to `capacity` tokens
    propose(tokens, k, sampling, generator)   at most k ids that may follow, and the rows q they were drawn from
    rewind(length)                            forget what was read beyond the first `length` tokens of the text
"""
import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from decoding.feed import NOTHING, Model, feed, prefill, rewind
from decoding.sampling import Sampling, choose, to_probs


class Drafter(Protocol):
    n_ctx: float  # whole, or math.inf

    def start(self, prompt: list[int], capacity: int) -> None: ...
    def propose(self, tokens: list[int], k: int, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]: ...
    def rewind(self, length: int) -> tuple[int, int] | None: ...


class ModelDrafter:
    """A small model, which writes k tokens one after the other as the plain loop would."""

    def __init__(self, model: Model, use_cache: bool = True) -> None:
        self.model = model
        self.use_cache = use_cache
        self.n_ctx = model.config.n_ctx
        self.cache = None

    def start(self, prompt: list[int], capacity: int) -> None:
        self.cache = self.model.new_cache(min(capacity, self.n_ctx)) if self.use_cache else None
        if len(prompt) <= self.n_ctx:  # into a longer one no draft will be asked for
            prefill(self.model, self.cache, prompt)

    def propose(self, tokens: list[int], k: int, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """k ids (k,) and the rows q they were drawn from (k, n_vocab), all on the model's device.

        The first step also reads what was settled since the last call: one token, or two after full acceptance, when the
        last drafted token was kept but never fed. The token drafted last is not fed at all.
        """
        drafted, q = NOTHING, []
        for i in range(k):
            logits = feed(self.model, self.cache, tokens, drafted)
            q.append(to_probs(logits, sampling, len(tokens) + i))
            token = choose(q[-1], sampling, generator)
            drafted = torch.cat([drafted.to(token.device), token])
        return drafted, torch.cat(q)

    def rewind(self, length: int) -> tuple[int, int] | None:
        return rewind(self.cache, length)


class LookupDrafter:
    """Proposes what followed the last time the text ended like this: no model, no cost, good where text repeats itself.

    Prompt lookup decoding (Saxena 2023). The last `n` tokens are looked for in the text before them, the latest match
    wins, and of a shorter ending the next shorter one is tried. What is found is certain, so q is one-hot.
    """

    n_ctx = math.inf

    def __init__(self, n_vocab: int, n: int = 3) -> None:
        self.n_vocab, self.n = n_vocab, n

    def start(self, prompt: list[int], capacity: int) -> None:
        pass

    def propose(self, tokens: list[int], k: int, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        found = torch.tensor(continuation(tokens, self.n, k), dtype=torch.long)
        return found, F.one_hot(found, self.n_vocab).float()

    def rewind(self, length: int) -> None:
        pass


def continuation(tokens: list[int], n: int, k: int) -> list[int]:
    """k tokens copied from behind the latest earlier occurrence of the last n tokens, or of fewer; [] if there is none.

    A copy that reaches the end of the text goes on with what it has copied, so that a loop is continued as a loop.
    """
    for length in range(n, 0, -1):
        ending = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == ending:
                followed = tokens[start + length :]
                return [followed[i % len(followed)] for i in range(k)]
    return []
