"""A linear layer whose weight is cut along its inputs, so that each thread reads memory in one go.

The weight lies in memory as (n_in, n_out): for one input after the other, the weights of all
outputs. A slab is a number of these rows that stand beside each other. The product of a slab with
its own inputs is a part of every output, and the parts are added up:

    y = x[:m] @ slab 0  +  x[m : 2m] @ slab 1  +  …  +  bias

There are two slabs for each thread, so all threads read at once, each from front to back.
"""
import math

import torch
from torch import Tensor

from model.fast.packed import PackedLinear


class SlabLinear(PackedLinear):
    """nn.Linear for inference, in slabs. For one token, and for two."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        n_out, n_in = weight.shape
        n_slabs = math.gcd(n_in, 2 * torch.get_num_threads())
        rows = weight.detach().T.clone(memory_format=torch.contiguous_format)  # (n_in, n_out)
        super().__init__(rows.unflatten(0, (n_slabs, -1)), bias, n_out)  # (n_slabs, m, n_out)
        # The first slab's product starts from the bias, the others' from zero.
        starts = self.bias.new_zeros(n_slabs, 1, n_out)
        starts[0] = self.bias
        self.starts = starts

    def to_plain(self) -> Tensor:
        rows = self.weight.detach().flatten(0, 1)  # (n_in, n_out)
        return rows.T.clone(memory_format=torch.contiguous_format)

    def forward(self, x: Tensor) -> Tensor:
        parts = x.reshape(-1, len(self.weight), self.weight.shape[1])  # (N, n_slabs, m)
        y = torch.baddbmm(self.starts, parts.transpose(0, 1), self.weight)  # (n_slabs, N, n_out)
        return y.sum(0).view(*x.shape[:-1], len(self.bias))  # (..., n_out)
