"""A linear layer whose weight is packed for oneDNN, whose kernels for few tokens are fast.

oneDNN is a library inside PyTorch. Its kernels are made for images: a token is a pixel, and a
linear layer a convolution of size 1. In which order it wants a weight depends on the processor, the
number format and the number of tokens. In any other order it rearranges the whole weight in each
call, which takes up to a hundred times as long as the product. So it is found out first for which
numbers of tokens the order is the same, and other numbers are filled up to the next of these.

In float32 the order is that of the strips in `model.fast.strips`, as wide as the processor wants
them: one memory serves both, oneDNN for few tokens, `torch.baddbmm` for many.

The operators are those that PyTorch's own compiler uses. They are not documented. Where they are
not, the other layouts remain.
"""
import ctypes
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model.fast.packed import PackedLinear, has_kernel
from model.fast.strips import cut, multiply

WIDEST = 32  # strips up to here are read as fast as memory allows by a product with one token


class Order(NamedTuple):
    """How oneDNN wants a weight."""

    sizes: list[int]  # numbers of tokens for which it wants this very order, ascending
    width: int | None  # of its strips; None if it has an order of its own


class OneDNNLinear(PackedLinear):
    """nn.Linear for inference, packed for passes over `tokens_per_pass` tokens.

    Raises AttributeError or RuntimeError where oneDNN has no such kernel.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, tokens_per_pass: int) -> None:
        n_out, n_in = weight.shape
        order = order_for(n_out, n_in, weight.dtype, tokens_per_pass)
        packed = reorder(weight.detach().contiguous(), tokens_per_pass)
        if torch.ops.mkldnn.data_ptr(packed) == weight.data_ptr():  # it was in this order already
            packed = reorder(weight.detach().clone(), tokens_per_pass)
        super().__init__(packed, bias, n_out)  # opaque, (n_out, n_in, 1, 1)
        self.sizes, self.width = order
        if self.width is not None:
            self.strips = memory(self.weight).view(-1, n_in, self.width)
            self.biases = cut(self.bias[:, None], self.width)

    def to_plain(self) -> Tensor:
        return self.weight.to_dense()[:, :, 0, 0]

    def forward(self, x: Tensor) -> Tensor:
        N, most = x.shape[:-1].numel(), self.sizes[-1]
        if self.width is not None and (N > most or (N == 1 and self.width <= WIDEST)):
            return multiply(x, self.strips, self.biases, len(self.bias))
        if N > most:
            parts = [self(part) for part in x.reshape(1, N, -1).split(most, dim=1)]
            return torch.cat(parts, dim=1).view(*x.shape[:-1], len(self.bias))
        size = next(size for size in self.sizes if size >= N)
        if N < size:  # add rows that nobody reads
            rows = F.pad(x.reshape(1, N, -1), (0, 0, 0, size - N))
            return convolve(rows, self.weight, self.bias)[:, :N].reshape(*x.shape[:-1], len(self.bias))
        return convolve(x, self.weight, self.bias).reshape(*x.shape[:-1], len(self.bias))


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply N rows x (..., n_in) by weight (n_out, n_in, 1, 1), packed or not.

    Returns (1, N, 1, n_out).
    """
    image = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)  # (1, n_in, N, 1), in x's memory
    y = torch.ops.mkldnn._convolution_pointwise(
        image, weight, bias, [0, 0], [1, 1], [1, 1], 1, "none", [], "")
    return y.permute(0, 2, 3, 1)  # from (1, n_out, N, 1)


def reorder(weight: Tensor, n: int) -> Tensor:
    """Pack weight (n_out, n_in) as oneDNN wants it for n rows.

    Returns an opaque tensor (n_out, n_in, 1, 1).
    """
    return torch.ops.mkldnn._reorder_convolution_weight(
        weight[:, :, None, None], [0, 0], [1, 1], [1, 1], 1, [1, weight.shape[1], n, 1])


def memory(packed: Tensor) -> Tensor:
    """Return the numbers of an opaque tensor in the order of its memory, (n,).

    The result shares that memory. It can hold more numbers than the matrix has: oneDNN may fill it
    up with zeros.
    """
    size = torch.ops.mkldnn._nbytes(packed)
    buffer = (ctypes.c_char * size).from_address(torch.ops.mkldnn.data_ptr(packed))
    buffer.owner = packed  # type: ignore[attr-defined]  # the memory lives as long as the result
    return torch.frombuffer(buffer, dtype=packed.dtype)


@cache
def order_for(n_out: int, n_in: int, dtype: torch.dtype, tokens: int) -> Order:
    """Return how oneDNN wants a weight (n_out, n_in) that meets `tokens` tokens at once.

    This is read off a matrix that oneDNN has packed. Raises AttributeError or RuntimeError if it
    has no kernel for this.
    """
    if not has_kernel(dtype):  # it may still try, and has returned wrong numbers
        raise RuntimeError(f"this processor has no kernel for {dtype}")
    numbers = torch.arange(251, dtype=dtype, device="cpu").repeat(n_out * n_in // 251 + 1)
    weight = numbers[:n_out * n_in].view(n_out, n_in)  # 251 is prime: neighbours differ
    weight[0, 1:2] = 251  # alone of its kind
    packed = reorder(weight, tokens)
    convolve(weight.new_ones(tokens, n_in), packed, weight.new_ones(n_out))  # or raises
    width = strip_width(weight, memory(packed))
    tried = {2, 3, 5, 6, tokens, 2 * tokens}  # 1 is missing: two rows take no longer than one
    if width is None:  # then long texts are read in parts of these sizes
        tried |= {16, 32, 64, 128}
    return Order([n for n in sorted(tried) if n == tokens or alike(packed, reorder(weight, n))],
                 width)


def alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two packed tensors of the same matrix have the same order.

    Their beginnings tell.
    """
    begin = 64 * one.shape[1]  # numbers
    return (torch.equal(memory(one)[:begin], memory(other)[:begin])
            and len(memory(one)) == len(memory(other)))


def strip_width(weight: Tensor, packed: Tensor) -> int | None:
    """Return the width of the strips that `packed`, the memory of the packed weight, consists of.

    None if there are no strips. Only for float32: in half precision `torch.baddbmm` is slow. The
    second weight of the first output, here the largest number of all, lies right after the first
    weights of all outputs of its strip.
    """
    if weight.dtype != torch.float32:
        return None
    n_out, n_in = weight.shape
    width = int(packed.argmax())
    if width == 0 or len(packed) != -(-n_out // width) * width * n_in:
        return None
    ends = weight[:width], weight[(n_out - 1) // width * width:]  # the first strip, the last one
    first, last = (cut(end, width).flatten() for end in ends)
    return width if (torch.equal(first, packed[:len(first)])
                     and torch.equal(last, packed[-len(last):])) else None
