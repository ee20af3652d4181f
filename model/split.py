"""Which part of each matrix a process has, when a model is split over several of them by heads.

Shoeybi et al. 2019 (arXiv 1909.08053). Every block is twice a pair of matrices. Of the first of a
pair a process has some of the outputs: the queries, keys and values of its heads, or its numbers
between the two matrices of the MLP. Of the second it has the inputs that read just those. What all
of them compute is then added up, once for each pair.
"""
from typing import NamedTuple

import torch
from torch import Tensor

# By the last part of a layer's name, in all families. Layers that are not here stay whole.
OUTPUTS, THIRDS, KEYS, HIDDEN, INPUTS = range(5)
KINDS = {
    "c_attn": THIRDS,  # queries, keys and values side by side, each with all heads
    "query_key_value": OUTPUTS,  # the same head by head
    "q_proj": OUTPUTS, "k_proj": KEYS, "v_proj": KEYS,
    # between the two matrices of the MLP
    "c_fc": HIDDEN, "fc1": HIDDEN, "dense_h_to_4h": HIDDEN, "gate_proj": HIDDEN, "up_proj": HIDDEN,
    "c_proj": INPUTS, "out_proj": INPUTS, "dense": INPUTS, "o_proj": INPUTS,
    "fc2": INPUTS, "dense_4h_to_h": INPUTS, "down_proj": INPUTS,
}


class Share(NamedTuple):
    """Process `rank` of `size`, and what it has of each dimension."""

    rank: int
    size: int

    def of(self, n: int, start: int = 0) -> slice:
        """Return which of n things, numbered from `start` on, are this process's."""
        return slice(start + self.rank * n // self.size, start + (self.rank + 1) * n // self.size)

    def of_heads(self, heads: int) -> "Share":
        """Return the share of so many heads of keys, which several processes may have to keep."""
        parts = min(heads, self.size)
        return Share(self.rank * parts // self.size, parts)


class Cut(NamedTuple):
    """What a process has of one layer: some of its outputs, or some of its inputs."""

    of_inputs: bool
    stretches: list[slice]

    def size(self) -> int:
        return sum(stretch.stop - stretch.start for stretch in self.stretches)

    def take(self, stored: Tensor, turned: bool = False) -> Tensor:
        """Return this part of a weight or bias.

        stored: the weight (n_out, n_in), or turned (n_in, n_out); or the bias (n_out,).
        """
        if stored.ndim == 1:
            if self.of_inputs:
                return stored  # whole: it is added once, after the sum
            return torch.cat([stored[s] for s in self.stretches])
        if self.of_inputs == turned:  # cut into groups of rows
            return torch.cat([stored[s] for s in self.stretches])
        return torch.cat([stored[:, s] for s in self.stretches], dim=1)


def cut(name: str, n_out: int, n_in: int, share: Share, kv_heads: int) -> Cut:
    """Return what a process has of the linear layer of this name and size, which is in KINDS."""
    kind = kind_of(name)
    if kind == INPUTS:
        return Cut(True, [share.of(n_in)])
    if kind == THIRDS:
        third = n_out // 3
        return Cut(False, [share.of(third, start) for start in (0, third, 2 * third)])
    if kind == KEYS:
        return Cut(False, [share.of_heads(kv_heads).of(n_out)])
    return Cut(False, [share.of(n_out)])


def kind_of(name: str) -> int | None:
    """Return how the linear layer of this name is cut; None if it is not."""
    return KINDS.get(name.rpartition(".")[2])


class Divided(NamedTuple):
    """What is shared out of a model."""

    heads: int
    kv_heads: int  # of keys and values, which heads of queries may share
    hidden: int  # numbers between the two matrices of the MLP

    def fits(self, size: int) -> bool:
        """Return whether it can be shared out evenly among so many processes."""
        keys = self.kv_heads % size == 0 or size % self.kv_heads == 0
        return self.heads % size == 0 and self.hidden % size == 0 and keys

    def check(self, size: int) -> None:
        """Raise ValueError unless it can be."""
        if not self.fits(size):
            sizes = [n for n in range(1, self.heads + 1) if self.fits(n)]
            keys = f", {self.kv_heads} of keys" * (self.kv_heads != self.heads)
            raise ValueError(f"a model of {self.heads} heads{keys} and an MLP {self.hidden} wide "
                             f"cannot be shared out evenly among {size} processes; take one of "
                             f"{', '.join(map(str, sizes))}")
