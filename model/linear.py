"""Matrix products for a model that is only run: the same weights, laid out in memory as this processor reads them best.

Speculative decoding pays off where reading gamma + 1 tokens takes hardly longer than reading one. On many processors
nn.Linear is far from that: the library behind it rearranges the matrix again in every call with more than one row.
oneDNN, which is part of PyTorch, multiplies with a matrix that was rearranged once, in advance. The two operators are
the ones that PyTorch's own compiler puts into a frozen model; they are not documented, so nothing here relies on them.
"""
import timeit
from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt2 import GPT2, TiedHead

ROWS = (1, 5)  # what is timed: a step of the plain loop, and a verification


def pack(model: GPT2, linear: str = "auto") -> GPT2:
    """Give the model, in place, the fastest matrix products there are here; `model.linear` says which and why.

    linear: "auto" or "plain" for nn.Linear as it is. A packed model computes the same up to rounding, but is for
    inference: it stays on its device and in its dtype. `copy.deepcopy(model)` is a plain model again.
    Needs memory for one matrix more than the model has.
    """
    model.linear = "nn.Linear" if linear == "plain" else fastest(model.wte.weight.device.type, model.wte.weight.dtype)
    if model.linear == PACKED:
        for block in model.h:
            for part, name in ((block.attn, "c_attn"), (block.attn, "c_proj"), (block.mlp, "c_fc"), (block.mlp, "c_proj")):
                layer = getattr(part, name)
                setattr(part, name, PackedLinear(layer.weight, layer.bias))
        model.head = UnpackedHead()
    return model


PACKED = "packed for oneDNN"


@cache  # one choice for the whole process, so that the same weights loaded twice give the same logits
def fastest(device: str, dtype: torch.dtype) -> str:
    """Which matrix products to use: PACKED, or nn.Linear and the reason. Times both, which takes some 0.1 s."""
    if device != "cpu":
        return "nn.Linear"
    weight, bias = torch.ones(4096, 1024, dtype=dtype), torch.ones(4096, dtype=dtype)
    try:
        products = PackedLinear(weight, bias), partial(F.linear, weight=weight, bias=bias)
        for _ in range(3):  # on a busy machine one measurement can be wrong
            packed, plain = seconds(products, dtype)
            if packed < plain:
                return PACKED
    except (AttributeError, RuntimeError):  # no such operator in this PyTorch; or not for this processor, or this dtype
        return f"nn.Linear (no packing for {str(dtype).removeprefix('torch.')} here)"
    return "nn.Linear (packing gains nothing here)"


@torch.no_grad()
def seconds(products: tuple[Callable[[Tensor], Tensor], ...], dtype: torch.dtype) -> list[float]:
    """How long each takes for all of ROWS when nothing disturbs it. They take turns, so that what disturbs one disturbs all."""
    totals = [0.0] * len(products)
    for rows in ROWS:
        calls = [partial(product, torch.ones(1, rows, 1024, dtype=dtype)) for product in products]
        times = [[timeit.timeit(call, number=1) for call in calls] for _ in range(12)]
        totals = [total + min(column) for total, column in zip(totals, zip(*times))]
    return totals


class PackedLinear(nn.Module):
    """nn.Linear for inference. Its weight is kept in the blocks in which oneDNN reads it, and in no other form."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS[-1])
        self.weight = nn.Parameter(blocks, requires_grad=False)  # (out, in), opaque: only oneDNN can read it
        self.bias = nn.Parameter(bias.detach(), requires_grad=False)  # (out,)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")  # (..., out)

    def __deepcopy__(self, memo: dict) -> nn.Linear:
        """A copy is an nn.Linear: it can be converted, moved and trained."""
        copy = nn.Linear(*reversed(self.weight.shape), device="meta", dtype=self.weight.dtype)
        copy.weight = nn.Parameter(self.weight.to_dense(), requires_grad=False)
        copy.bias = nn.Parameter(self.bias.detach().clone(), requires_grad=False)
        return copy

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = self.weight.to_dense()  # a copy, as any model can load it

    def _apply(self, fn, recurse: bool = True) -> nn.Module:
        """Called by .to(), .half() and their like, which cannot change a packed weight."""
        new = fn(self.bias)
        if (new.device, new.dtype) != (self.bias.device, self.bias.dtype):
            raise RuntimeError("a packed model keeps its device and dtype; convert copy.deepcopy(model), which is a plain one")
        return self


class UnpackedHead(TiedHead):
    """The head, through oneDNN too, but with the rows as the embedding needs them: packing them would store them twice."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, wte, None, "none", [], "")  # (B, T, n_vocab)

    def __deepcopy__(self, memo: dict) -> TiedHead:
        return TiedHead()
