"""A linear layer whose weight is cut into strips.

A strip holds WIDTH of the outputs and lies in memory as (n_in, WIDTH): for one input after the
other, the WIDTH weights that it is multiplied by, which a few vector instructions do at once. The
product is one small product for each strip, all in one call of PyTorch, which reads the memory from
front to back.
"""
import torch
from torch import Tensor, nn

WIDTH = 16


class StripLinear(nn.Module):
    """nn.Linear for inference. Raises RuntimeError unless WIDTH divides the number of outputs."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        strips = cut(weight.detach(), WIDTH).clone(memory_format=torch.contiguous_format)
        self.keep(strips, bias.detach().clone())

    def keep(self, strips: Tensor, bias: Tensor) -> None:
        """Make parameters without gradients of them."""
        self.weight = nn.Parameter(strips, requires_grad=False)  # (n_out / width, n_in, width)
        self.bias = nn.Parameter(bias, requires_grad=False)  # (n_out,)
        self.biases = self.bias.view(len(strips), 1, -1)  # the same, (n_out / width, 1, width)

    def to_plain(self) -> Tensor:
        """Return the weight as nn.Linear has it."""
        return self.weight.transpose(1, 2).flatten(0, 1)  # (n_out, n_in), a copy

    def forward(self, x: Tensor) -> Tensor:
        # Even a view costs measurable time in a small model, so skip the two that change nothing
        # (batch 1, one token).
        rows = x if len(x) == 1 else x.flatten(0, -2)  # (1, N, n_in) or (N, n_in)
        rows = rows.expand(len(self.biases), -1, -1)
        y = torch.baddbmm(self.biases, rows, self.weight)  # (n_out / width, N, width)
        y = y if y.shape[1] == 1 else y.transpose(0, 1)
        return y.reshape(*x.shape[:-1], -1)  # (..., n_out)

    def __deepcopy__(self, memo: dict) -> nn.Linear:
        """Return an nn.Linear: a copy can be converted, moved and trained."""
        n_in, n_out = self.weight.shape[1], len(self.bias)
        copy = nn.Linear(n_in, n_out, device="meta", dtype=self.weight.dtype)
        copy.weight = nn.Parameter(self.to_plain(), requires_grad=False)
        copy.bias = nn.Parameter(self.bias.detach().clone(), requires_grad=False)
        return copy

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = self.to_plain()  # as any model can load it

    def _apply(self, fn, recurse: bool = True) -> nn.Module:
        """Refuse .to(), .half() and their like, which cannot change a packed weight."""
        new = fn(self.bias)
        if (new.device, new.dtype) != (self.bias.device, self.bias.dtype):
            raise RuntimeError("a packed model keeps its device and dtype; "
                               "convert copy.deepcopy(model), which is a plain one")
        return self


def cut(weight: Tensor, width: int) -> Tensor:
    """View weight (n_out, n_in) as strips, (n_out / width, n_in, width)."""
    return weight.unflatten(0, (-1, width)).transpose(1, 2)
