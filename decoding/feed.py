"""Feeding a model what it has not read yet: the one place where loops and drafters meet the model and its cache."""
from typing import Protocol

import torch
from torch import Tensor

from decoding.sampling import send
from decoding.stopwatch import synchronize


class Cache(Protocol):
    length: int  # how many tokens of the text it holds

    def truncate(self, length: int) -> None: ...


class Model(Protocol):
    """All that decoding knows about a model. `config` has n_ctx, the longest text it reads, and n_vocab."""

    config: object

    def forward(self, tokens: Tensor, cache: Cache | None, last: int) -> Tensor: ...  # (1, T) -> (1, last, n_vocab)
    def new_cache(self, capacity: int) -> Cache: ...


NOTHING = torch.empty(0, dtype=torch.long)  # the drafted ids of a round in which nothing is drafted


def prefill(model: Model, cache: Cache | None, prompt: list[int]) -> None:
    """Read the prompt but for its last token, which the first round feeds; no logits. Without a cache, nothing to do."""
    if cache is not None and len(prompt) > 1:
        model.forward(torch.tensor([prompt[:-1]]), cache, last=0)
        synchronize()  # its time must not end up in the first round's


def feed(model: Model, cache: Cache | None, tokens: list[int], drafted: Tensor = NOTHING, last: int = 1) -> Tensor:
    """Feed what the cache does not hold of tokens + drafted, or all of it without a cache; logits of the last rows.

    drafted (k,) -> (last, n_vocab)
    """
    start = 0 if cache is None else cache.length
    unread = send(torch.tensor(tokens[start:], dtype=torch.long), drafted.device)
    drafted = drafted[max(0, start - len(tokens)):]
    return model.forward(torch.cat([unread, drafted])[None], cache, last=last)[0]


def rewind(cache: Cache | None, length: int) -> tuple[int, int] | None:
    """Forget what lies beyond `length`. Returns the cache's length before and after, None without a cache."""
    if cache is None:
        return None
    before = cache.length
    cache.truncate(min(before, length))
    return before, cache.length
