"""Layouts for a model that is only run: the same weights, as this processor reads them best.

Speculative decoding pays off where reading gamma + 1 tokens takes hardly longer than reading one.
On many processors nn.Linear is far from that: the library behind it is made for many tokens, and
rearranges the matrix whenever there is more than one. `model.fast.strips` and `model.fast.onednn`
rearrange it once. Which of the three is fastest here, `model.fast.timing` finds out, and so it does
for the output heads of `model.fast.output_heads`.
"""
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from model.decoder import Decoder, TiedHead
from model.fast.onednn import OneDNNLinear
from model.fast.output_heads import ConvolvedHead, OneTokenHead, TurnedHead
from model.fast.strips import StripLinear
from model.fast.timing import SAMPLE, Layer, blocks_of, linear_layers, quickest, sample

PLAIN, STRIPS, ONEDNN = "nn.Linear", "strips", "oneDNN strips"
NAMES: dict[type[nn.Module], str] = {nn.Linear: PLAIN, StripLinear: STRIPS, OneDNNLinear: ONEDNN}
HEADS_THAT_CAN_BE_TRAINED = (TiedHead, TurnedHead)
HEADS = (*HEADS_THAT_CAN_BE_TRAINED, OneTokenHead, ConvolvedHead)
MOST_TOKENS = 10  # above this many tokens per pass, use the single-token layout
# What `fastest` has found, by the shapes of embedding and layers, dtype and tokens per pass.
FOUND: dict[Hashable, tuple[str, type[TiedHead]]] = {}

MakeLayer = Callable[[Tensor, Tensor], nn.Module]


@dataclass(frozen=True)
class Layout:
    """Which layer class and which output head a model uses."""

    layer: MakeLayer | None  # layer(weight, bias) builds a layer; None means nn.Linear
    head: type[TiedHead]


def layout_name(model: nn.Module) -> str:
    """Return the name of the model's layout, read off its first linear layer."""
    return next(NAMES[type(layer)] for layer in model.modules() if type(layer) in NAMES)


def pack(model: Decoder, linear: str = "auto", tokens_per_pass: int = 5) -> Decoder:
    """Give the model, in place, the fastest layers and output head there are here; return it.

    For linear and tokens_per_pass see `layout_for`. A packed model computes the same up to
    rounding, but is for inference: it stays on its device and in its dtype, and is not packed
    again. `copy.deepcopy(model)` is a plain model. Needs memory for one matrix of each shape more
    than the model has. Raises ValueError as `layout_for` does, and for a packed model.
    """
    layers = {name: layer for name, layer in model.named_modules(remove_duplicate=False)
              if isinstance(layer, nn.Linear)}
    if not layers:
        raise ValueError("the model is packed already; pack copy.deepcopy(model)")
    layout = layout_for(model, model.device, linear, tokens_per_pass)
    if layout.layer is not None:
        for name in list(layers):
            layer = layers.pop(name)  # only the model holds it: replacing it frees its memory
            model.set_submodule(name, layout.layer(layer.weight, layer.bias))
    model.head = layout.head()
    return model


def layout_for(model: Decoder, device: torch.device | str, linear: str = "auto",
               tokens_per_pass: int = 5) -> Layout:
    """Return the layout to use for this model on this device.

    model: plain; only its shapes and its dtype are looked at, so it may be one `without_memory`.
    linear: "auto" for the fastest, "plain" for nn.Linear as it is.
    tokens_per_pass: how many tokens the model will read at once, again and again: gamma + 1 if it
        is to verify, 1 for plain decoding, 2 for a draft, which reads two tokens after a round in
        which all of its own were accepted. It still reads any other number, but not always as fast.

    Raises ValueError for any other `linear`, and for tokens_per_pass below 1.
    """
    if linear not in ("auto", "plain"):
        raise ValueError(f"linear must be auto or plain, not {linear!r}")
    if tokens_per_pass < 1:
        raise ValueError(f"tokens_per_pass must be at least 1, not {tokens_per_pass}")
    if linear == "plain" or torch.device(device).type != "cpu":
        return Layout(None, TiedHead)
    tokens = tokens_per_pass if tokens_per_pass <= MOST_TOKENS else 1
    name, head = fastest(model, tokens)
    return Layout(packed_layers(tokens).get(name), head)


def packed_layers(tokens: int) -> dict[str, MakeLayer]:
    """Return, by name, the functions that build the packed layers of one model."""
    onednn = partial(OneDNNLinear, tokens_per_pass=tokens, packed_by_shape={})
    return {STRIPS: StripLinear, ONEDNN: onednn}


def fastest(model: Decoder, tokens: int) -> tuple[str, type[TiedHead]]:
    """Return the name of the fastest layers for a model of these shapes, and the fastest head.

    They are timed once in a process, so that the same weights, loaded twice for the same number of
    tokens, give the same logits. That takes one to two seconds for GPT-2 Large, and memory for
    three of its blocks; for a small model, three or four times SAMPLE bytes.
    """
    shapes = [layer.weight.shape for layer in linear_layers(blocks_of(model)[0])]
    key = (model.embedding.shape, model.dtype, *shapes, tokens)
    if key not in FOUND:
        name = fastest_layers(sample(model), tokens)
        # A plain model may be trained, converted and moved, so it gets no head that may not.
        heads = HEADS_THAT_CAN_BE_TRAINED if name == PLAIN else HEADS
        FOUND[key] = name, fastest_head(model.embedding, heads, tokens)
    return FOUND[key]


@torch.no_grad()
def fastest_layers(plain: list[nn.Linear], tokens: int) -> str:
    """Return the name of the fastest of these layers and of their packed forms."""
    candidates: dict[str, list[Layer]] = {PLAIN: list(plain)}
    for name, build in packed_layers(tokens).items():
        try:
            candidates[name] = [build(layer.weight, layer.bias) for layer in plain]
        except (AttributeError, RuntimeError):
            continue  # no such operator in this PyTorch, or not for this processor, dtype or shape
    widths = [layer.weight.shape[1] for layer in plain]
    return quickest(candidates, plain[0].weight, widths, tokens)


@torch.no_grad()
def fastest_head(embedding: Tensor, heads: tuple[type[TiedHead], ...],
                 tokens: int) -> type[TiedHead]:
    """Return the fastest of the heads.

    They share a part of a large embedding. Of a small one each has copies, SAMPLE bytes of them.
    """
    n_vocab, width = embedding.shape
    n_vocab = min(n_vocab, 4 * SAMPLE // (width * embedding.dtype.itemsize))
    wte = torch.ones(n_vocab, width, dtype=embedding.dtype, device="cpu")
    copies = min(SAMPLE // wte.nbytes, 64)
    candidates: dict[type[TiedHead], list[Layer]] = {}
    for head in heads:
        try:
            for n in (1, 2):
                head()(wte.new_ones(1, n, width), wte[:1])
        except (AttributeError, RuntimeError):  # as above
            continue
        tables = [wte.clone() for _ in range(copies)] or [wte]
        candidates[head] = [partial(head(), wte=table) for table in tables]
    return quickest(candidates, wte, [width] * max(1, copies), tokens)
