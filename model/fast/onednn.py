"""A linear layer whose weight is packed for oneDNN, whose kernels for few tokens are fast.

oneDNN is a library inside PyTorch. In which order it wants a weight depends on the processor, the
number format and the number of tokens. Packed for a few tokens, a weight serves one token and many
well, too.

The operators are those that PyTorch's own compiler uses, and are not documented. Where a PyTorch
lacks them, the other layouts remain.
"""
import torch
from torch import Tensor

from model.fast.packed import PackedLinear, has_kernel

FEW = 5  # tokens


class OneDNNLinear(PackedLinear):
    """nn.Linear for inference, packed for oneDNN.

    Raises AttributeError where PyTorch has no such operator, RuntimeError where the processor has
    no such kernel.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if not has_kernel(weight.dtype):  # it may still try, and has returned wrong numbers
            raise RuntimeError(f"this processor has no kernel for {weight.dtype}")
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), FEW)  # opaque, a copy
        super().__init__(packed, bias, len(weight))

    def to_plain(self) -> Tensor:
        return self.weight.to_dense()

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
