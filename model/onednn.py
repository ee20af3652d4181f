"""The strips of `model.strips` in the hands of oneDNN, the library inside PyTorch whose kernels for a few rows are the fastest.

The kernels are made for images: a row is a pixel, and a linear layer a convolution of size 1. They read weights in strips
too, so one memory serves both: oneDNN lays it out and takes the passes over a few rows, `torch.baddbmm` takes all others.
The operators are those that PyTorch's own compiler uses. They are not documented, so whatever is expected of them is checked
first, and nothing relies on them.
"""
import ctypes
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.strips import StripHead, StripLinear, to_strips

WIDTHS = (8, 16, 24, 32, 48, 64)  # of strips, on one processor or another
ROWS = 5  # the number of rows for which oneDNN is asked to lay out the weights: a verification with gamma 4


class OneDNNLinear(StripLinear):
    """nn.Linear for inference. Raises AttributeError or RuntimeError where oneDNN has no such kernel or no such strips."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        nn.Module.__init__(self)
        n_out, n_in = weight.shape
        width, self.sizes = layout(n_out, n_in, weight.dtype)
        self.blocks = reorder(weight.detach(), ROWS)  # opaque: oneDNN's own view of the weight
        self.weight = nn.Parameter(memory(self.blocks).view(-1, n_in, width), requires_grad=False)
        for strip in (0, -1):  # as `layout` has found it with another matrix
            if not torch.allclose(self.weight[strip], weight.unflatten(0, (-1, width))[strip].T, rtol=0, atol=0, equal_nan=True):
                raise RuntimeError("oneDNN has laid out this matrix in another way")
        self.bias = nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, n_in)
        N = len(rows)
        if not 1 < N <= self.sizes[-1]:
            return super().forward(x)
        size = next(size for size in self.sizes if size >= N)
        if N < size:  # for N rows it would rearrange the weight in every call: add rows that nobody reads
            rows = F.pad(rows, (0, 0, 0, size - N))
        return convolve(rows, self.blocks, self.bias)[:N].view(*x.shape[:-1], -1)


class OneDNNHead(StripHead):
    """The head. The embedding, as it is, serves as the image, and the rows as the weights: they are few enough to rearrange."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, n_embd)
        if len(rows) < 2:
            return torch.ops.mkldnn._linear_pointwise(x, wte, None, "none", [], "")
        logits = convolve(wte, rows[:, :, None, None], None)  # (n_vocab, N)
        return logits.T.contiguous().unflatten(0, x.shape[:-1])  # (B, T, n_vocab)


def convolve(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """rows (N, n_in) times weight (n_out, n_in, 1, 1), in oneDNN's layout or not: (N, n_out)."""
    image = rows[None, :, None].permute(0, 3, 1, 2)  # (1, n_in, N, 1), in the memory of rows
    return torch.ops.mkldnn._convolution_pointwise(image, weight, bias, [0, 0], [1, 1], [1, 1], 1, "none", [], "")[0, ..., 0].T


def reorder(weight: Tensor, rows: int) -> Tensor:
    """weight (n_out, n_in) in the layout that oneDNN wants for so many rows: an opaque tensor, (n_out, n_in, 1, 1)."""
    image = [1, weight.shape[1], rows, 1]
    return torch.ops.mkldnn._reorder_convolution_weight(weight[:, :, None, None], [0, 0], [1, 1], [1, 1], 1, image)


def memory(blocks: Tensor) -> Tensor:
    """The numbers of an opaque tensor in the order in which they lie in its memory, which the result shares: (n,)."""
    size = blocks.numel() * blocks.element_size()
    if torch.ops.mkldnn._nbytes(blocks) != size:
        raise RuntimeError("oneDNN has filled up the matrix")
    buffer = (ctypes.c_char * size).from_address(torch.ops.mkldnn.data_ptr(blocks))
    buffer.owner = blocks  # so that the memory lives as long as the result
    return torch.frombuffer(buffer, dtype=blocks.dtype)


@cache
def layout(n_out: int, n_in: int, dtype: torch.dtype) -> tuple[int, list[int]]:
    """The width of the strips that oneDNN wants for ROWS rows, and the numbers of rows up to which it wants the same ones.

    Found out with a matrix in which neighbours differ. Raises RuntimeError if oneDNN does not want strips, or not for this dtype.
    """
    weight = torch.arange(n_out * n_in).remainder(251).view(n_out, n_in).to(dtype)  # 251 is prime
    wanted = memory(reorder(weight, ROWS))
    width = next((width for width in WIDTHS if n_out % width == 0 and torch.equal(wanted, to_strips(weight, width).flatten())), 0)
    if not width:
        raise RuntimeError("oneDNN does not lay out this matrix in strips")
    convolve(weight.new_ones(ROWS, n_in), reorder(weight, ROWS), weight.new_ones(n_out))
    OneDNNHead()(weight.new_ones(1, n_in), weight)
    return width, [rows for rows in (ROWS, 2 * ROWS) if torch.equal(wanted, memory(reorder(weight, rows)))]
