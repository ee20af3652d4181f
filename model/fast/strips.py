"""A linear layer whose weight is cut into strips.

A strip holds `width` of the outputs and lies in memory as (n_in, width): for one input after the
other, the weights that it is multiplied by, which a few vector instructions do at once. The product
is one small product for each strip, all in one call of PyTorch, which reads the memory from front
to back.
"""
import torch
from torch import Tensor

from model.fast.packed import PackedLinear


class StripLinear(PackedLinear):
    """nn.Linear for inference, in strips of `width` outputs."""

    def __init__(self, weight: Tensor, bias: Tensor | None, width: int = 16) -> None:
        strips = cut(weight.detach(), width)  # (n_strips, n_in, width)
        super().__init__(strips.clone(memory_format=torch.contiguous_format), bias, len(weight))
        self.biases = cut(self.bias[:, None], width)  # (n_strips, 1, width)

    def to_plain(self) -> Tensor:
        weight = self.weight.detach().transpose(1, 2).flatten(0, 1)[:len(self.bias)]
        return weight.clone(memory_format=torch.contiguous_format)  # (n_out, n_in)

    def forward(self, x: Tensor) -> Tensor:
        strips, n_out = self.weight, len(self.bias)
        # Even a view costs measurable time in a small model, so skip those that change nothing
        # (batch 1, one token, a last strip that is full).
        rows = x if len(x) == 1 else x.flatten(0, -2)  # (1, N, n_in) or (N, n_in)
        y = torch.baddbmm(self.biases, rows.expand(len(strips), -1, -1), strips)
        y = y if y.shape[1] == 1 else y.transpose(0, 1)  # (N, n_strips, width) in order
        y = y.reshape(*x.shape[:-1], strips.shape[0] * strips.shape[2])  # (..., n_strips * width)
        return y if y.shape[-1] == n_out else y[..., :n_out]  # (..., n_out)


def cut(weight: Tensor, width: int) -> Tensor:
    """Cut weight (n_out, n_in) into strips (n_strips, n_in, width), the last filled up with zeros.

    The strips are a view of the weight if nothing is to be filled up.
    """
    missing = -len(weight) % width
    if missing:
        weight = torch.cat([weight, weight.new_zeros(missing, weight.shape[1])])
    return weight.unflatten(0, (-1, width)).transpose(1, 2)
