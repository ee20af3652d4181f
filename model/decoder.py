"""What all models here share: room for new tokens is checked, they are read, logits come out.

A family, such as GPT-2 in gpt2.py, says only how it reads.
"""
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import block_mask
from model.kv_cache import KVCache


class Sizes(Protocol):
    """What `Decoder` needs to know of a model's configuration."""

    @property
    def n_layer(self) -> int: ...
    @property
    def n_head(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...  # heads of keys and values, which heads of queries may share
    @property
    def n_embd(self) -> int: ...  # width of the residual stream
    @property
    def d_head(self) -> int: ...  # width of a head
    @property
    def n_vocab(self) -> int: ...  # how many ids stand for a text
    @property
    def n_ctx(self) -> int: ...  # the most token ids the model can read at once


class Place(NamedTuple):
    """Where new tokens stand, if not simply one after the other: in a tree, or in a batch."""

    positions: Tensor  # (T,) or (B, T), each below n_ctx
    mask: Tensor  # (T, S) or (B, 1, T, S), added to the scores: 0 = visible, -inf = hidden


class Decoder(nn.Module):
    """A language model. A family says only what is its own: `read`, `logits` and `embedding`."""

    config: Sizes

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        """Return what the last block makes of the tokens, (B, T, n_embd).

        Their keys and values are stored in the cache.
        tokens: (B, T) ids, on the model's device.
        positions: where they stand in the text, a slice of length T or a tensor (T,) or (B, T).
        mask: see `attend`.
        """
        raise NotImplementedError

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits made from what `read` returned: (B, T, n_embd) -> (B, T, n_vocab)."""
        raise NotImplementedError

    @property
    def embedding(self) -> Tensor:
        """The token embedding, (n_vocab or more, n_embd)."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    def forward(self, tokens: Tensor, cache: KVCache | None = None, last: int | None = None,
                place: Place | None = None) -> Tensor:
        """Return logits for the token after each of the last positions, (B, last or T, n_vocab).

        tokens: (B, T) ids, T >= 1, which follow what `cache` holds; the cache then holds them too.
        last: how many of the last positions: all T when None, none when 0.
        place: where the tokens stand, if not in a row right after the cached ones. The caller then
            sees to it that the positions are within the context.

        Raises ValueError when the context, or the cache, has no room for them, or `last` is more
        than T. A forward with a cache is for inference only: it overwrites memory that a backward
        pass would need.
        """
        embedding = self.embedding
        tokens = tokens.to(embedding.device)
        T = tokens.shape[1]
        last = T if last is None else last
        start = 0 if cache is None else cache.length
        if place is None:
            check_block(self.config, start, T, last)
            x = self.read(tokens, slice(start, start + T), block_mask(start, T, embedding), cache)
        else:
            check_last(T, last)
            positions, mask = place.positions.to(embedding.device), place.mask.to(embedding)
            x = self.read(tokens, positions, mask, cache)  # (B, T, n_embd)
        if cache is not None:
            cache.extend(T)
        return self.logits(x[:, T - last:])  # (B, last, n_vocab)

    def new_cache(self, capacity: int, batch: int = 1) -> KVCache:
        """Return an empty cache for `capacity` positions of `batch` sequences.

        It is on the model's device and in its dtype. Raises ValueError for a negative capacity.
        """
        return KVCache(*self.cache_sizes, capacity, batch, self.device, self.dtype)

    @property
    def cache_sizes(self) -> tuple[int, int, int]:
        """The number of layers, and of each the heads of keys, and their width."""
        return self.config.n_layer, self.config.kv_heads, self.config.d_head


class TiedHead(nn.Module):
    """An output head without weights: it compares x with the embedding of every token."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        return F.linear(x, wte)  # (B, T, n_vocab)


def check_block(config: Sizes, start: int, T: int, last: int) -> None:
    """Raise ValueError unless T tokens after `start` others fit into the context, and last <= T."""
    if start + T > config.n_ctx:
        raise ValueError(f"the model reads at most {config.n_ctx} tokens, not {start + T}")
    check_last(T, last)


def check_last(T: int, last: int) -> None:
    """Raise ValueError unless the logits of the last `last` of T positions can be asked for."""
    if not 0 <= last <= T:
        raise ValueError(f"the last {last} of {T} positions were asked for")
