"""Timing of layers that compute the same: which is fastest on this processor.

They are timed as a model uses them: many layers one after the other, whose weights do not all fit
into the processor's cache.
"""
import math
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from torch import Tensor, nn

from model.decoder import Decoder
from model.meta import NoInitialValues

SECONDS, TURNS = 0.1, 8  # the least time, and number of turns, for each number of tokens
# Bytes of weights that each candidate is timed with. Taking turns, the candidates push each other's
# weights out of the processor's cache.
SAMPLE = 2**24

Layer = Callable[[Tensor], Tensor]
Key = TypeVar("Key")


def quickest(candidates: dict[Key, list[Layer]], like: Tensor, widths: list[int],
             tokens: int) -> Key:
    """Return the key of the fastest candidate: by its time for one token plus that for `tokens`.

    candidates: for each key, layers that are called one after the other.
    like: a tensor of their dtype, on their device.
    widths: of each layer's input.

    The time is the least that was seen, when nothing disturbed it. The candidates take turns, so
    that what disturbs one disturbs all. One that is much slower than the best gets two turns only.
    """
    totals = dict.fromkeys(candidates, 0.0)
    for n in (1, tokens):
        xs = [like.new_ones(1, n, width) for width in widths]
        calls = {key: partial(apply, layers, xs) for key, layers in candidates.items()}
        least = dict.fromkeys(candidates, math.inf)
        turn, end = 0, time.perf_counter() + SECONDS
        while turn < TURNS or time.perf_counter() < end:
            for key, call in calls.items():
                if turn < 2 or least[key] < 1.5 * min(least.values()):
                    least[key] = min(least[key], timeit.timeit(call, number=1))
            turn += 1
        totals = {key: total + least[key] for key, total in totals.items()}
    return min(totals, key=lambda key: totals[key])


def apply(layers: list[Layer], xs: list[Tensor]) -> None:
    """Call each layer with its input."""
    for layer, x in zip(layers, xs, strict=True):
        layer(x)


def sample(model: Decoder) -> list[nn.Linear]:
    """Return layers of the model's shapes, on the CPU: one block's, or more, up to SAMPLE bytes.

    All weights are 1: products with other numbers take as long.
    """
    blocks = blocks_of(model)
    layers = linear_layers(blocks[0])
    size = sum(layer.weight.nbytes for layer in layers)
    return [filled(layer) for layer in layers * max(1, min(len(blocks), SAMPLE // size))]


def blocks_of(model: nn.Module) -> nn.ModuleList:
    """Return the list of the model's blocks."""
    return next(part for part in model.modules() if isinstance(part, nn.ModuleList))


def linear_layers(part: nn.Module) -> list[nn.Linear]:
    """Return the part's layers that are nn.Linear, packed ones left out."""
    return [layer for layer in part.modules() if isinstance(layer, nn.Linear)]


def filled(layer: nn.Linear) -> nn.Linear:
    """Return an nn.Linear of the same shape and dtype, on the CPU, filled with ones."""
    n_out, n_in = layer.weight.shape
    with NoInitialValues():
        copy = nn.Linear(n_in, n_out, device="cpu", dtype=layer.weight.dtype)
    for weight in copy.requires_grad_(False).parameters():
        weight.fill_(1)
    return copy
