"""Toy models for proofs and tests: quick, exact, and unforgiving about positions and caches."""
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from decoding.feed import Cache, Model
from decoding.random import Generator
from decoding.sampling import Sampling
from model import GPT2, Decoder, GPT2Config, KVCache


@dataclass(frozen=True)
class ToyConfig:
    """All that the loops ask of a model's configuration."""

    n_vocab: int = 3
    n_ctx: int = 16


class TextCache:
    """A cache that keeps the ids themselves, so that one look shows what a loop left in it."""

    def __init__(self, capacity: int) -> None:
        self.ids: list[int] = []
        self.capacity = capacity

    @property
    def length(self) -> int:
        return len(self.ids)

    def truncate(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self.ids[length:]


class HashModel:
    """A model whose logits depend on every id so far: one random row for each text.

    So a wrong token in a cache gives other logits.

    never: ids of probability 0, whatever the text.
    """

    def __init__(self, seed: int, n_vocab: int = 3, n_ctx: int = 16,
                 never: Sequence[int] = ()) -> None:
        self.config = ToyConfig(n_vocab, n_ctx)
        self.seed, self.never = seed, list(never)
        self.rows: dict[tuple[int, ...], Tensor] = {}

    def new_cache(self, capacity: int) -> TextCache:
        return TextCache(capacity)

    def row(self, text: tuple[int, ...]) -> Tensor:
        """Return the logits of the token after a text, (n_vocab,)."""
        if text not in self.rows:
            numbers = random.Random(f"{self.seed} {text}")
            logits = [numbers.gauss(0, 1.5) for _ in range(self.config.n_vocab)]
            self.rows[text] = torch.tensor(logits, dtype=torch.float64)
            self.rows[text][self.never] = -math.inf
        return self.rows[text]

    def forward(self, tokens: Tensor, cache: TextCache | None = None,
                last: int | None = None) -> Tensor:
        """Return a row for each of the last positions. (1, T) -> (1, last or T, n_vocab)"""
        new = tokens[0].tolist()
        text = new if cache is None else cache.ids + new
        assert new and len(text) <= self.config.n_ctx
        if cache is not None:
            assert len(text) <= cache.capacity
            cache.ids = text
        last = len(new) if last is None else last
        rows = [self.row(tuple(text[:end])) for end in range(len(text) - last + 1, len(text) + 1)]
        nothing = torch.empty(0, self.config.n_vocab, dtype=torch.float64)
        return (torch.stack(rows) if rows else nothing)[None]


class MemorylessModel(HashModel):
    """A model with the same distribution after every text."""

    def __init__(self, probs: list[float], n_ctx: int = 16) -> None:
        super().__init__(seed=0, n_vocab=len(probs), n_ctx=n_ctx)
        self.logits = torch.tensor(probs, dtype=torch.float64).log()

    def row(self, text: tuple[int, ...]) -> Tensor:
        return self.logits


class HashDecoder(Decoder):
    """A HashModel that knows a text only by a real cache, by positions and by a mask.

    Its keys are the ids, its values their positions. The text before a token is what its mask
    shows of them, which must be whole and in order.
    """

    config: "ReaderConfig"

    def __init__(self, model: HashModel) -> None:
        super().__init__()
        self.rows, self.config = model.row, ReaderConfig(model.config.n_vocab, model.config.n_ctx)

    @property
    def embedding(self) -> Tensor:
        return torch.empty(0, dtype=torch.float64)

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        assert cache is not None and mask is not None and not isinstance(positions, slice)
        kv = torch.stack([tokens, positions.expand_as(tokens)])  # (2, B, T)
        kv = cache.store(0, kv[:, :, None, :, None].double())[:, :, 0, :, 0].long()  # (2, B, S)
        rows = [self.row_of(*kv[:, b, seen == 0].tolist())
                for b, block in enumerate(mask[:, 0]) for seen in block]
        return torch.stack(rows).view(*tokens.shape, -1)  # (B, T, n_vocab)

    def row_of(self, text: list[int], positions: list[int]) -> Tensor:
        if len(text) > self.config.n_ctx:  # it ends in fillers
            return torch.zeros(self.config.n_vocab, dtype=torch.float64)
        assert positions == list(range(len(text)))
        return self.rows(tuple(text))

    def logits(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class ReaderConfig(ToyConfig):
    """The sizes of a cache with one number for each position."""

    n_layer: int = 1
    n_head: int = 1
    kv_heads: int = 1
    d_head: int = 1
    n_embd: int = 1


class Untouchable:
    """A model that nobody may run."""

    config = ToyConfig()

    def forward(self, *_, **__):
        raise AssertionError("the model was run")

    new_cache = forward


class Parrot:
    """A drafter that repeats the last token, with a one-hot q.

    most: the most tokens it proposes at once.
    """

    def __init__(self, n_vocab: int = 3, n_ctx: int = 16, most: int = 99) -> None:
        self.n_vocab, self.n_ctx, self.most = n_vocab, n_ctx, most

    def start(self, prompt: list[int], capacity: int) -> None:
        pass

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        ids = torch.tensor(tokens[-1:] * min(k, self.most), dtype=torch.long)
        return ids, F.one_hot(ids, self.n_vocab).double()

    def rewind(self, length: int) -> None:
        pass


class Spy:
    """Any model, with a record of what it read.

    reads: for each forward, how many ids were in the cache, and the new ones.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.config = model, model.config
        self.reads: list[tuple[int, list[int]]] = []
        self.cache: Cache | None = None

    def new_cache(self, capacity: int) -> Cache:
        self.cache = self.model.new_cache(capacity)
        return self.cache

    def forward(self, tokens: Tensor, cache: Cache | None = None,
                last: int | None = None) -> Tensor:
        self.reads.append((0 if cache is None else cache.length, tokens[0].tolist()))
        return self.model.forward(tokens, cache, last=last)


def tiny_pair(n_ctx: int = 256, draft_ctx: int = 256,
              dtype: torch.dtype = torch.float64) -> tuple[GPT2, GPT2]:
    """Return two GPT-2s of random weights, which write varied text.

    The draft is the target with noise and is right half the time. The weights are always the same.
    n_ctx, draft_ctx: how many tokens the two can read.
    """
    generator = torch.Generator().manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_vocab=24, n_ctx=256)
    target, draft = GPT2(config), GPT2(config)
    for (name, ours), theirs in zip(target.named_parameters(), draft.parameters(), strict=True):
        spread = 0.1 if name.endswith("bias") else 0.3 if name.startswith("h.") else 1.0
        weight = spread * torch.randn(ours.shape, generator=generator, dtype=torch.float64)
        noise = spread * torch.randn(ours.shape, generator=generator, dtype=torch.float64)
        ours.data, theirs.data = weight.to(dtype), (weight + 0.1 * noise).to(dtype)
    target.config, draft.config = replace(config, n_ctx=n_ctx), replace(config, n_ctx=draft_ctx)
    return target.eval(), draft.eval()


def random_prompt(length: int, n_vocab: int = 24) -> list[int]:
    """Return a prompt, the same for every call with this length."""
    numbers = random.Random(length)
    return [numbers.randrange(n_vocab) for _ in range(length)]
