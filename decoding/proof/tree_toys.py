"""A toy model for proofs about trees: what it answers is what its mask lets it see."""
import torch
from torch import Tensor

from decoding.proof.toys import HashModel, TextCache
from model.decoder import Place


class BranchCache(TextCache):
    """A cache of ids that can keep one branch of several."""

    def keep(self, length: int, rows: list[int]) -> None:
        assert length <= self.length and all(length <= row < self.length for row in rows)
        self.ids = self.ids[:length] + [self.ids[row] for row in rows]


class HashTreeModel(HashModel):
    """A HashModel that reads branches, and insists that positions and mask agree."""

    def new_cache(self, capacity: int) -> BranchCache:
        return BranchCache(capacity)

    def forward(self, tokens: Tensor, cache: TextCache | None = None, last: int | None = None,
                place: Place | None = None) -> Tensor:
        """Return a row for each of the last tokens. (1, T) -> (1, last or T, n_vocab)"""
        if place is None:
            return super().forward(tokens, cache, last)
        new = tokens[0].tolist()
        ids = new if cache is None else cache.ids + new
        seen = []
        for row, position, token in zip(place.mask.tolist(), place.positions.tolist(), new,
                                        strict=True):
            seen.append(tuple(i for i, hidden in zip(ids, row, strict=True) if hidden == 0))
            assert len(seen[-1]) == position + 1 <= self.config.n_ctx and seen[-1][-1] == token
        if cache is not None:
            assert len(ids) <= cache.capacity
            cache.ids = ids
        last = len(new) if last is None else last
        return torch.stack([self.row(text) for text in seen[len(new) - last:]])[None]
