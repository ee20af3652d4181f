"""The strips of `model.fast.strips`, multiplied by oneDNN, whose kernels for few tokens are fast.

oneDNN is a library inside PyTorch. Its kernels are made for images: a token is a pixel, and a
linear layer a convolution of size 1. They read weights in strips too, so one copy of the weight
serves both: oneDNN lays it out and multiplies it by one or a few tokens, `torch.baddbmm` by any
other number of tokens. The operators are those that PyTorch's own compiler uses. They are not
documented. So it is checked first that they are there and how they lay out a matrix, and where
they are not, the other layouts remain.
"""
import ctypes
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.fast.strips import StripLinear, cut

WIDTHS = (8, 16, 24, 32, 48, 64)  # of strips, by processor and tokens per pass


class OneDNNLinear(StripLinear):
    """nn.Linear for inference, laid out for passes over `tokens_per_pass` tokens.

    packed_by_shape: the first packed weight of each shape, for the layers of one model, in one
    dtype and for one number of tokens. Later layers copy it and overwrite the values, twice as fast
    as packing again.

    Raises AttributeError or RuntimeError where oneDNN has no such kernel or no such strips.
    """

    def __init__(self, weight: Tensor, bias: Tensor, tokens_per_pass: int,
                 packed_by_shape: dict[torch.Size, Tensor]) -> None:
        nn.Module.__init__(self)
        n_out, n_in = weight.shape
        width, self.sizes = strips_for(n_out, n_in, weight.dtype, tokens_per_pass)
        if weight.shape not in packed_by_shape:
            packed_by_shape[weight.shape] = reorder(weight.detach(), self.sizes[-1])
        self.packed = packed_by_shape[weight.shape].clone()  # the strips as oneDNN takes them
        strips = memory(self.packed).view(-1, n_in, width).copy_(cut(weight.detach(), width))
        self.keep(strips, bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        N = x.shape[:-1].numel()
        if N > self.sizes[-1] or (N == 1 and 1 not in self.sizes):  # filling up 1 token costs more
            return super().forward(x)
        size = next(size for size in self.sizes if size >= N)
        if N < size:  # for N it might rearrange the weight each time: add rows that nobody reads
            rows = F.pad(x.reshape(1, N, -1), (0, 0, 0, size - N))
            return convolve(rows, self.packed, self.bias)[:, :N].reshape(*x.shape[:-1], -1)
        return convolve(x, self.packed, self.bias).reshape(*x.shape[:-1], -1)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply N rows x (..., n_in) by weight (n_out, n_in, 1, 1), in oneDNN's layout or not.

    Returns (1, N, 1, n_out).
    """
    image = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)  # (1, n_in, N, 1), in x's memory
    y = torch.ops.mkldnn._convolution_pointwise(
        image, weight, bias, [0, 0], [1, 1], [1, 1], 1, "none", [], "")
    return y.permute(0, 2, 3, 1)  # from (1, n_out, N, 1)


def reorder(weight: Tensor, n: int) -> Tensor:
    """Lay out weight (n_out, n_in) as oneDNN wants it for n rows.

    Returns an opaque tensor (n_out, n_in, 1, 1).
    """
    return torch.ops.mkldnn._reorder_convolution_weight(
        weight[:, :, None, None], [0, 0], [1, 1], [1, 1], 1, [1, weight.shape[1], n, 1])


def memory(packed: Tensor) -> Tensor:
    """Return the numbers of an opaque tensor in the order of its memory, (n,).

    The result shares that memory. It can hold more numbers than the matrix has: oneDNN may fill up
    the last strip.
    """
    size = torch.ops.mkldnn._nbytes(packed)
    buffer = (ctypes.c_char * size).from_address(torch.ops.mkldnn.data_ptr(packed))
    buffer.owner = packed  # type: ignore[attr-defined]  # the memory lives as long as the result
    return torch.frombuffer(buffer, dtype=packed.dtype)


@cache
def strips_for(n_out: int, n_in: int, dtype: torch.dtype, tokens: int) -> tuple[int, list[int]]:
    """Return (strip width for `tokens` tokens, all token counts with the same layout).

    If oneDNN's strips do not fit the matrix, those for one or two tokens more are taken. They are
    read off a matrix that oneDNN has packed. Raises RuntimeError if oneDNN does not use strips, or
    has no kernel for this dtype.
    """
    numbers = torch.arange(251, dtype=dtype, device="cpu").repeat(n_out * n_in // 251 + 1)
    weight = numbers[:n_out * n_in].view(n_out, n_in)  # 251 is prime: neighbours differ
    for n in range(tokens, tokens + 3):
        packed = reorder(weight, n).clone()  # as the layers are
        wanted = memory(packed)
        for width in WIDTHS:
            if n_out % width == 0 and torch.equal(wanted, cut(weight, width).flatten()):
                convolve(weight.new_ones(n, n_in), packed, weight.new_ones(n_out))  # or raises
                sizes = sorted({1, 2, 3, 5, 6, n, 2 * n})  # fill up to the next of these
                return width, [s for s in sizes if torch.equal(wanted, memory(reorder(weight, s)))]
    raise RuntimeError("oneDNN does not lay out this matrix in strips")
