"""Which part of each matrix a process has, when a model is split over several of them by heads.

Shoeybi et al. 2019 (arXiv 1909.08053). Every block is twice a pair of matrices. Of the first of a
pair a process has some of the outputs: the queries, keys and values of its heads, or its numbers
between the two matrices of the MLP. Of the second it has the inputs that read just those. What all
of them compute is then added up, once for each pair.
"""
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

# By the last part of a layer's name, in all families. Layers that are not here stay whole.
OUTPUTS, THIRDS, KEYS, INPUTS = range(4)
KINDS = {
    "c_attn": THIRDS,  # queries, keys and values side by side, each with all heads
    "query_key_value": OUTPUTS,  # the same head by head
    "q_proj": OUTPUTS, "k_proj": KEYS, "v_proj": KEYS,
    "c_fc": OUTPUTS, "fc1": OUTPUTS, "dense_h_to_4h": OUTPUTS,
    "gate_proj": OUTPUTS, "up_proj": OUTPUTS,
    "c_proj": INPUTS, "out_proj": INPUTS, "dense": INPUTS, "o_proj": INPUTS,
    "fc2": INPUTS, "dense_4h_to_h": INPUTS, "down_proj": INPUTS,
}


class Heads(Protocol):
    """What is to be shared out: numbers of a model's configuration."""

    @property
    def n_head(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...  # heads of keys and values, which heads of queries may share
    @property
    def n_mlp(self) -> int: ...  # numbers between the two matrices of the MLP


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


def cut(name: str, n_out: int, n_in: int, share: Share, kv_heads: int) -> Cut | None:
    """Return what a process has of the linear layer of this name and size; None for all of it."""
    kind = KINDS.get(name.rpartition(".")[2])
    if kind is None:
        return None
    if kind == INPUTS:
        return Cut(True, [share.of(n_in)])
    if kind == THIRDS:
        third = n_out // 3
        return Cut(False, [share.of(third, start) for start in (0, third, 2 * third)])
    if kind == KEYS:
        return Cut(False, [share.of_heads(kv_heads).of(n_out)])
    return Cut(False, [share.of(n_out)])


def fits(config: Heads, size: int) -> bool:
    """Return whether a model can be shared out among so many processes."""
    keys = config.kv_heads % size == 0 or size % config.kv_heads == 0
    return config.n_head % size == 0 and config.n_mlp % size == 0 and keys


def check_size(config: Heads, size: int) -> None:
    """Raise ValueError for a number of processes that a model cannot be shared out among."""
    if not fits(config, size):
        sizes = [n for n in range(1, config.n_head + 1) if fits(config, n)]
        keys = f", {config.kv_heads} of keys" * (config.kv_heads != config.n_head)
        raise ValueError(f"a model of {config.n_head} heads{keys} and an MLP {config.n_mlp} wide "
                         f"cannot be shared out evenly among {size} processes; take one of "
                         f"{', '.join(map(str, sizes))}")
