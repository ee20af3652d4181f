"""Matrix products for a model that is only run: the same weights, laid out in memory as this processor reads them best.

Speculative decoding pays off where reading gamma + 1 tokens takes hardly longer than reading one. On many processors
nn.Linear is far from that: the library behind it is made for many rows, and rearranges the matrix whenever there is more
than one. `model.strips` and `model.onednn` rearrange it once. Here the fastest of the three is chosen by trying them, and
so is the fastest way to multiply with the embedding, of those in `model.heads`.
"""
import math
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from model.config import GPT2Config
from model.gpt2 import GPT2, TiedHead
from model.heads import ConvolvedHead, OneRowHead, TurnedHead
from model.onednn import OneDNNLinear
from model.shape import without_memory
from model.strips import StripLinear

PLAIN, STRIPS, ONEDNN = "nn.Linear", "strips", "oneDNN strips"
HEADS_THAT_CAN_BE_TRAINED = (TiedHead, TurnedHead)
HEADS = (*HEADS_THAT_CAN_BE_TRAINED, OneRowHead, ConvolvedHead)
CHOSEN = {}  # for n_vocab and n_embd, on which the shapes depend, a dtype and a number of rows: what `fastest` has found
MOST_ROWS = 10  # for which a layout is asked for; whoever reads more at once gets the one for single rows
LONG_ENOUGH, OFTEN_ENOUGH = 0.1, 8  # seconds and turns to time each number of rows
SAMPLE = 2**24  # bytes of layers that each candidate is timed with; taking turns, they push each other out of the cache


@dataclass(frozen=True)
class Products:
    """How a model multiplies: what makes its linear layers of weight and bias (None: they are nn.Linear), and its head."""

    linear: str  # what the layers are called
    layer: Callable[[Tensor, Tensor], nn.Module] | None
    head: type[TiedHead]

    def finish(self, model: GPT2) -> GPT2:
        """Give the model, whose layers are made already, its head, and let `model.linear` say which layers it has."""
        model.linear, model.head = self.linear, self.head()
        return model


def pack(model: GPT2, linear: str = "auto", rows: int = 5) -> GPT2:
    """Give the model, in place, the fastest matrix products there are here; `model.linear` says which layers it has.

    For linear and rows see `choose`. A packed model computes the same up to rounding, but is for inference: it stays on its
    device and in its dtype, and is not packed again. `copy.deepcopy(model)` is a plain model. Needs memory for one matrix
    of each shape more than the model has. Raises ValueError as `choose` does, and for a packed model.
    """
    layers = {name: layer for name, layer in model.named_modules(remove_duplicate=False) if isinstance(layer, nn.Linear)}
    if not layers:
        raise ValueError("the model is packed already; pack copy.deepcopy(model)")
    wte = model.wte.weight
    products = choose(model.config, wte.device, wte.dtype, linear, rows)
    if products.layer is not None:
        for name in list(layers):
            layer = layers.pop(name)  # nothing but the model may hold it, so that its memory is free when it is replaced
            model.set_submodule(name, products.layer(layer.weight, layer.bias))
    return products.finish(model)


def choose(config: GPT2Config, device: torch.device | str, dtype: torch.dtype, linear: str = "auto", rows: int = 5) -> Products:
    """The matrix products for a model of this shape.

    linear: "auto" for the fastest, "plain" for nn.Linear as it is.
    rows: how many tokens the model will read at once, again and again: gamma + 1 if it is to verify, 1 for plain decoding,
    2 for a draft, which reads two tokens when all of its last ones were accepted. It still reads any other number, but not
    always as fast as it could. Raises ValueError for any other `linear`, and for rows below 1.
    """
    if linear not in ("auto", "plain"):
        raise ValueError(f"linear must be auto or plain, not {linear!r}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}")
    if linear == "plain" or torch.device(device).type != "cpu":
        return Products(PLAIN, None, TiedHead)
    rows = rows if rows <= MOST_ROWS else 1
    choice, why, head = fastest(config, dtype, rows)
    return Products(choice + why, kinds(rows).get(choice), head)


def kinds(rows: int) -> dict[str, Callable[[Tensor, Tensor], nn.Module]]:
    """By name, what makes the packed layers of one model of weight and bias."""
    return {STRIPS: StripLinear, ONEDNN: partial(OneDNNLinear, rows=rows, moulds={})}


def fastest(config: GPT2Config, dtype: torch.dtype, rows: int) -> tuple[str, str, type[TiedHead]]:
    """What to use for the layers of such a model, in brackets what there is not, and what to use for its head: found out
    once in a process, so that the same weights loaded twice, for the same rows, give the same logits. Takes one to two
    seconds for GPT-2 Large, and memory for three of its blocks, for small models for SAMPLE times three or four."""
    key = (config.n_vocab, config.n_embd, dtype, rows)
    if key not in CHOSEN:
        choice, why = fastest_layers(sample(config, dtype), rows)
        # Beside nn.Linear nothing would say that the other heads are for inference, and for one dtype and device.
        heads = HEADS_THAT_CAN_BE_TRAINED if choice == PLAIN else HEADS
        CHOSEN[key] = choice, why, fastest_head(config, dtype, heads, rows)
    return CHOSEN[key]


def sample(config: GPT2Config, dtype: torch.dtype) -> list[nn.Linear]:
    """The linear layers of as many of the blocks as take SAMPLE bytes, or of one. All weights are 1: products with other
    numbers take as long."""
    size = 12 * config.n_embd**2 * dtype.itemsize  # of a block
    n_layer = max(1, min(config.n_layer, SAMPLE // size))
    blocks = without_memory(replace(config, n_layer=n_layer), dtype).h
    ones = {name: torch.ones(weight.shape, dtype=dtype, device="cpu") for name, weight in blocks.named_parameters()}
    blocks.load_state_dict(ones, assign=True)
    return [layer for layer in blocks.modules() if isinstance(layer, nn.Linear)]


@torch.no_grad()
def fastest_layers(plain: list[nn.Linear], rows: int) -> tuple[str, str]:
    """The fastest of these layers and of their packed forms, and in brackets the last form that cannot be had here."""
    candidates, missing = {PLAIN: plain}, ""
    for name, kind in kinds(rows).items():
        try:
            candidates[name] = [kind(layer.weight, layer.bias) for layer in plain]
        except (AttributeError, RuntimeError):  # no such operator in this PyTorch, or not for this processor, dtype or shape
            missing = f" (no {name} for {str(plain[0].weight.dtype).removeprefix('torch.')} here)"
    return quickest(candidates, lambda n: [layer.weight.new_ones(1, n, layer.in_features) for layer in plain], rows), missing


@torch.no_grad()
def fastest_head(config: GPT2Config, dtype: torch.dtype, heads: tuple[type[TiedHead], ...], rows: int) -> type[TiedHead]:
    """The fastest of the heads. Of a large embedding they share a part; of a small one each is given copies, for the same
    reason that there is a SAMPLE."""
    wte = torch.ones(min(config.n_vocab, 4 * SAMPLE // (config.n_embd * dtype.itemsize)), config.n_embd,
                     dtype=dtype, device="cpu")
    candidates, copies = {}, min(SAMPLE // wte.nbytes, 64)
    for kind in heads:
        try:
            for n in (1, 2):
                kind()(wte.new_ones(1, n, wte.shape[1]), wte[:1])
            candidates[kind] = [partial(kind(), wte=wte.clone()) for _ in range(copies)] or [partial(kind(), wte=wte)]
        except (AttributeError, RuntimeError):  # as above; another head is as good a head, so there is nothing to tell
            continue
    return quickest(candidates, lambda n: [wte.new_ones(1, n, wte.shape[1])] * max(1, copies), rows)


def quickest(candidates: dict, inputs: Callable[[int], list[Tensor]], rows: int):
    """The key of the layers whose time for one row plus that for `rows` rows is least, when nothing disturbs them. They
    take turns, so that what disturbs one disturbs all; what is much slower than the best is out after two turns."""
    totals = dict.fromkeys(candidates, 0.0)
    for n in (1, rows):
        calls = {key: partial(apply, layers, inputs(n)) for key, layers in candidates.items()}
        least, turn, end = dict.fromkeys(candidates, math.inf), 0, time.perf_counter() + LONG_ENOUGH
        while turn < OFTEN_ENOUGH or time.perf_counter() < end:
            for key, call in calls.items():
                if turn < 2 or least[key] < 1.5 * min(least.values()):
                    least[key] = min(least[key], timeit.timeit(call, number=1))
            turn += 1
        totals = {key: total + least[key] for key, total in totals.items()}
    return min(totals, key=totals.get)


def apply(layers: list[Callable[[Tensor], Tensor]], xs: list[Tensor]) -> None:
    for layer, x in zip(layers, xs):
        layer(x)
