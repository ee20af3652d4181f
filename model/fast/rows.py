"""A linear layer that reads its weight row by row for one token, as a matrix times a vector.

PyTorch has a kernel of its own for that product. In bfloat16 it is faster than nn.Linear's, which
is made for many tokens; so it is for an output head.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.fast.output_heads import TurnedHead
from model.fast.packed import PackedLinear


class RowLinear(PackedLinear):
    """nn.Linear for inference, with another product for one token."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach().clone(memory_format=torch.contiguous_format)
        super().__init__(weight, bias, len(weight))

    def to_plain(self) -> Tensor:
        return self.weight.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[:-1].numel() != 1:
            return F.linear(x, self.weight, self.bias)  # (..., n_out)
        return torch.addmv(self.bias, self.weight, x.flatten()).view(*x.shape[:-1], -1)


class RowHead(TurnedHead):
    """The same for an output head; for several tokens it multiplies the other way round."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() != 1:
            return super().forward(x, wte)
        return torch.mv(wte, x.flatten()).view(*x.shape[:-1], -1)  # (B, T, n_vocab)
