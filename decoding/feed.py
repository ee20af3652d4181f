"""Feeding a model what it has not read yet: loops and drafters run models through here only."""
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from decoding.random import send
from model.decoder import Place
from model.tree import chain, tree_place


class Cache(Protocol):
    @property
    def length(self) -> int: ...  # how many tokens of the text it holds

    def truncate(self, length: int) -> None: ...


class Config(Protocol):
    @property
    def n_ctx(self) -> int: ...  # the most tokens the model can read at once

    @property
    def n_vocab(self) -> int: ...


@runtime_checkable
class Model(Protocol):
    """All that decoding knows about a model."""

    @property
    def config(self) -> Config: ...

    # tokens (1, T) -> (1, last, n_vocab)
    def forward(self, tokens: Tensor, cache: Any = None, last: int | None = None) -> Tensor: ...

    def new_cache(self, capacity: int) -> Cache: ...


class TreeCache(Cache, Protocol):
    def keep(self, length: int, rows: list[int]) -> None: ...  # see `KVCache.keep`


class TreeModel(Model, Protocol):
    """What decoding with trees asks of a model: it reads tokens at any place."""

    def forward(self, tokens: Tensor, cache: Any = None, last: int | None = None,
                place: Place | None = None) -> Tensor: ...

    def new_cache(self, capacity: int) -> TreeCache: ...


NOTHING = torch.empty(0, dtype=torch.long)  # the drafted ids of a round in which nothing is drafted


def prefill(model: Model, cache: Cache, prompt: list[int]) -> None:
    """Read the prompt without its last token, which the first round feeds. Computes no logits."""
    if len(prompt) > 1:
        model.forward(torch.tensor([prompt[:-1]]), cache, last=0)


def feed(model: Model, cache: Cache, tokens: list[int], drafted: Tensor = NOTHING,
         last: int = 1) -> Tensor:
    """Run the model on the part of tokens + drafted that is not cached yet.

    drafted: (k,) ids. Returns the logits after the last `last` tokens, (last, n_vocab).
    """
    unread = send(torch.tensor(tokens[cache.length:], dtype=torch.long), drafted.device)
    drafted = drafted[max(0, cache.length - len(tokens)):]
    return model.forward(torch.cat([unread, drafted])[None], cache, last=last)[0]


def feed_tree(model: TreeModel, cache: Cache, tokens: list[int], drafted: Tensor,
              parents: list[int], last: int) -> Tensor:
    """Run the model on what is not cached yet of the text, then on a tree of drafted tokens.

    drafted: (N,) ids, of which number i follows number parents[i], or the text if that is -1.
    Returns the logits after the last `last` tokens, (last, n_vocab).
    """
    unread = send(torch.tensor(tokens[cache.length:], dtype=torch.long), drafted.device)
    n = len(unread)
    block = chain(n) + [n - 1 if parent < 0 else n + parent for parent in parents]
    place = tree_place(block, cache.length)
    return model.forward(torch.cat([unread, drafted])[None], cache, last=last, place=place)[0]


def rewind(cache: Cache, length: int) -> tuple[int, int]:
    """Forget what lies beyond `length`. Returns the cache's length before and after."""
    before = cache.length
    cache.truncate(min(before, length))
    return before, cache.length


class NoCache:
    """A cache that never holds anything."""

    length = 0

    def truncate(self, length: int) -> None:
        pass

    def keep(self, length: int, rows: list[int]) -> None:
        pass


class Uncached:
    """A model without a cache: every pass reads the whole text. It shows what a cache is worth."""

    def __init__(self, model: Model) -> None:
        self.model, self.config = model, model.config

    def new_cache(self, capacity: int) -> NoCache:
        return NoCache()

    def forward(self, tokens: Tensor, cache: NoCache | None = None, last: int | None = None,
                **place: Any) -> Tensor:
        """Return the model's own logits. A prefill, `last=0`, would be forgotten: it is skipped."""
        if last == 0:
            return torch.empty(1, 0, self.config.n_vocab)
        return self.model.forward(tokens, None, last, **place)
