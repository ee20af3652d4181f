"""Matrix products for a model that is only run: the same weights, laid out in memory as this processor reads them best.

Speculative decoding pays off where reading gamma + 1 tokens takes hardly longer than reading one. On many processors
nn.Linear is far from that: the library behind it is made for many rows, and rearranges the matrix whenever there is more
than one. `model.strips` and `model.onednn` rearrange it once. Here the fastest of the three is chosen by trying them.
"""
import time
import timeit
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from model.gpt2 import GPT2
from model.onednn import OneDNNHead, OneDNNLinear
from model.strips import StripHead, StripLinear

PLAIN, STRIPS, ONEDNN = "nn.Linear", "strips", "oneDNN strips"
HEADS = {STRIPS: StripHead, ONEDNN: OneDNNHead}
CHOSEN = {}  # for n_embd, on which the shapes depend, a dtype and a number of rows: what `fastest` has found
HANDICAP = 1.15  # nn.Linear has to be clearly faster: the others have a faster head too, which is not timed
LONG_ENOUGH = 0.1  # seconds to time each number of rows
SAMPLE = 2**24  # bytes of layers that each candidate is timed with; taking turns, they push each other out of the cache


def pack(model: GPT2, linear: str = "auto", rows: int = 5) -> GPT2:
    """Give the model, in place, the fastest matrix products there are here; `model.linear` says which.

    linear: "auto" or "plain" for nn.Linear as it is; ValueError for anything else.
    rows: how many tokens the model will read at once, again and again: gamma + 1 if it is to verify, 1 for plain decoding
    or a draft. It still reads any other number, but not always as fast as it could.
    A packed model computes the same up to rounding, but is for inference: it stays on its device and in its dtype.
    `copy.deepcopy(model)` is a plain model again. Needs memory for one matrix more than the model has, and for two copies
    of SAMPLE bytes, or of one block, to choose.
    """
    if linear not in ("auto", "plain"):
        raise ValueError(f"linear must be auto or plain, not {linear!r}")
    choice, why = (PLAIN, "") if linear == "plain" else fastest(model, rows)
    model.linear = choice + why
    if choice != PLAIN:
        for part, name in linears(model.h):
            layer = getattr(part, name)
            setattr(part, name, kinds(rows)[choice](layer.weight, layer.bias))
        model.head = HEADS[choice]()
    return model


def kinds(rows: int) -> dict[str, Callable[[Tensor, Tensor], nn.Module]]:
    """The packed layers by name, as functions of weight and bias."""
    return {STRIPS: StripLinear, ONEDNN: partial(OneDNNLinear, rows=rows)}


def linears(blocks: nn.ModuleList) -> list[tuple[nn.Module, str]]:
    """Where the linear layers are: the module that has one, and under what name."""
    return [place for block in blocks for place in (
        (block.attn, "c_attn"), (block.attn, "c_proj"), (block.mlp, "c_fc"), (block.mlp, "c_proj"))]


def fastest(model: GPT2, rows: int) -> tuple[str, str]:
    """What to use for this model, and in brackets what there is not: the choice for the first model of its width in this
    process, so that the same weights loaded twice give the same logits. Takes one to two seconds for GPT-2 Large."""
    weight = model.wte.weight
    if weight.device.type != "cpu":
        return PLAIN, ""
    key = (model.config.n_embd, weight.dtype, rows)
    if key not in CHOSEN:
        size = sum(weight.nbytes for weight in model.h[0].parameters())
        CHOSEN[key] = compare([getattr(*place) for place in linears(model.h[:max(1, SAMPLE // size)])], rows)
    return CHOSEN[key]


@torch.no_grad()
def compare(plain: list[nn.Linear], rows: int) -> tuple[str, str]:
    """The fastest of these layers and of their packed forms, and in brackets the last form that cannot be had here."""
    candidates, missing = {PLAIN: plain}, ""
    for name, kind in kinds(rows).items():
        try:
            candidates[name] = [kind(layer.weight, layer.bias) for layer in plain]
        except (AttributeError, RuntimeError):  # no such operator in this PyTorch, or not for this processor, dtype or shape
            missing = f" (no {name} for {str(plain[0].weight.dtype).removeprefix('torch.')} here)"
    times = seconds(candidates, rows)
    times[PLAIN] *= HANDICAP
    return min(times, key=times.get), missing


def seconds(candidates: dict[str, list[nn.Module]], rows: int) -> dict[str, float]:
    """How long each takes for one row and then for `rows` rows when nothing disturbs it. They take turns, so that what
    disturbs one disturbs all."""
    totals = dict.fromkeys(candidates, 0.0)
    for n in (1, rows):
        xs = [layer.weight.new_ones(1, n, layer.in_features) for layer in candidates[PLAIN]]
        calls = {name: partial(apply, layers, xs) for name, layers in candidates.items()}
        turns, end = [], time.perf_counter() + LONG_ENOUGH
        while not turns or time.perf_counter() < end:
            turns.append({name: timeit.timeit(call, number=1) for name, call in calls.items()})
        totals = {name: total + min(turn[name] for turn in turns) for name, total in totals.items()}
    return totals


def apply(layers: list[nn.Module], xs: list[Tensor]) -> None:
    for layer, x in zip(layers, xs):
        layer(x)
