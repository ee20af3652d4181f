"""A mistake of many libraries: numbers that a block of tokens shares.

"Dynamic quantization" multiplies whole numbers of 8 bits. It scales what goes into a layer by the
largest number in it, and that of a whole block: PyTorch's `quantize_dynamic` does so. What a token
computes then depends on the tokens beside it. In the plain loop none is beside it, in a
verification the drafted ones are: the target that verifies is another one than the target that is
wanted, and no rule of acceptance can help. Scaled row by row, every row is the row alone.
"""
import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.decoder import Decoder


class QuantizedLinear(nn.Module):
    """nn.Linear in 8 bits: the weight scaled by output, what goes in by block or by row."""

    def __init__(self, layer: nn.Linear, by_row: bool) -> None:
        super().__init__()
        self.weight, self.scale = to_8_bits(layer.weight.detach(), by_row=True)  # (n_out, n_in)
        self.bias, self.by_row = layer.bias, by_row

    def forward(self, x: Tensor) -> Tensor:
        x, scale = to_8_bits(x, self.by_row)
        # Whole numbers, so exact in float64 whatever the order of the sum.
        product = F.linear(x.double(), self.weight.double()).to(self.bias.dtype)
        return product * scale * self.scale.T + self.bias  # (..., n_out)


def to_8_bits(x: Tensor, by_row: bool) -> tuple[Tensor, Tensor]:
    """Return whole numbers from -127 to 127, and what to multiply them by: (..., 1), or one."""
    largest = x.abs().amax(-1, keepdim=True) if by_row else x.abs().max()
    scale = largest.clamp(min=1e-30) / 127
    return (x / scale).round(), scale


def quantize(model: Decoder, by_row: bool) -> Decoder:
    """Return a copy of the model, whose linear layers are quantized."""
    model = copy.deepcopy(model)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear):
            model.set_submodule(name, QuantizedLinear(layer, by_row))
    return model


@torch.no_grad()
def difference_beside_others(model: Decoder, tokens: list[int], drafted: list[int]) -> float:
    """Return by how much the logits after `tokens` change when more is drafted beside the last one.

    The largest difference of a logit, over the largest logit. 0 is right.
    """
    logits = []
    for block in ([tokens[-1]], [tokens[-1], *drafted]):
        cache = model.new_cache(len(tokens) + len(drafted))
        for token in tokens[:-1]:  # one by one: both caches hold the same
            model(torch.tensor([[token]]), cache, last=0)
        logits.append(model(torch.tensor([block]), cache)[0, 0])
    alone, beside = logits
    return ((alone - beside).abs().max() / alone.abs().max()).item()
