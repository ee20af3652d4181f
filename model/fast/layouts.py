"""Layouts for a model that is only run: the same weights, as this processor reads them best.

Speculative decoding pays off where reading gamma + 1 tokens takes hardly longer than reading one.
On many processors nn.Linear is far from that: the library behind it is made for many tokens, and
rearranges the matrix in every call with more than one token, or more than three. The layers of
`model.fast.onednn`, `strips` and `slabs` rearrange it once.

Which layout a model gets is a matter of preference, in the fixed order of `model.fast.preferences`.
`model.fast.timing` may overrule it, if another is clearly faster here.
"""
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from model.decoder import Decoder, TiedHead
from model.fast.preferences import (
    HEADS,
    LAYERS,
    PLAIN,
    MakeLayer,
    heads_by_preference,
    layers_by_preference,
)
from model.fast.timing import SAMPLE, Layer, blocks_of, choose, linear_layers, sample

LAYOUTS = ("auto", *LAYERS)
NAMES = {kind or nn.Linear: name for name, kind in LAYERS.items()}
OWN_HEAD = "own"
MOST_TOKENS = 64  # a model that reads more at once is laid out for this many

Choices = MutableMapping[str, str]  # what was chosen, by what it was chosen for
CHOICES: Choices = {}  # of this process


@dataclass(frozen=True)
class Layout:
    """Which layer class and which output head a model uses."""

    layer: MakeLayer | None  # layer(weight, bias) builds a layer; None means nn.Linear
    head: type[TiedHead] | None  # None for a model whose output head is a layer of its own


def layout_name(model: nn.Module) -> str:
    """Return the name of the model's layout, read off its first linear layer."""
    return next(NAMES[type(layer)] for layer in model.modules() if type(layer) in NAMES)


def head_name(model: nn.Module) -> str:
    """Return the name of the model's output head; "own" if it is a layer with weights of its own.

    One of HEADS can take another's place at any time: `give_head`.
    """
    return next((type(head).__name__ for head in model.modules() if isinstance(head, TiedHead)),
                OWN_HEAD)


def pack(model: Decoder, layout: str = "auto", tokens_per_pass: int = 5) -> Decoder:
    """Give the model, in place, the best layers and output head there are here; return it.

    For layout and tokens_per_pass see `layout_for`. A packed model computes the same up to
    rounding, but is for inference: it stays on its device and in its dtype, and is not packed
    again. `copy.deepcopy(model)` is a plain model. Needs memory for two matrices more than the
    model has. Raises ValueError as `layout_for` does, and for a packed model.
    """
    layers = {name: layer for name, layer in model.named_modules(remove_duplicate=False)
              if isinstance(layer, nn.Linear)}
    if not layers:
        raise ValueError("the model is packed already; pack copy.deepcopy(model)")
    found = layout_for(model, model.device, layout, tokens_per_pass)
    if found.layer is not None:
        for name in list(layers):
            layer = layers.pop(name)  # only the model holds it: replacing it frees its memory
            model.set_submodule(name, found.layer(layer.weight, layer.bias))
    give_head(model, found.head)
    return model


def give_head(model: nn.Module, head: type[TiedHead] | None) -> None:
    """Replace the model's output head by another one, if both have no weights."""
    for part in list(model.modules()):
        if head is not None and isinstance(getattr(part, "head", None), TiedHead):
            part.head = head()


def layout_for(model: Decoder, device: torch.device | str, layout: str = "auto",
               tokens_per_pass: int = 5, choices: Choices = CHOICES) -> Layout:
    """Return the layout to use for this model on this device.

    model: plain; only its shapes and its dtype are looked at, so it may be one `without_memory`.
    layout: one of LAYOUTS; "auto" for the best, "plain" for nn.Linear as it is.
    tokens_per_pass: how many tokens the model will read at once, again and again: gamma + 1 if it
        is to verify, 1 for plain decoding, 2 for a draft, which reads two tokens after a round in
        which all of its own were accepted. It still reads any other number, but not always as fast.
    choices: what was chosen before; a new choice is added, unless the machine was too busy for one.

    Raises ValueError for any other `layout` or one that there is not here, and for tokens_per_pass
    below 1.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    if tokens_per_pass < 1:
        raise ValueError(f"tokens_per_pass must be at least 1, not {tokens_per_pass}")
    on_cpu = torch.device(device).type == "cpu"
    tied = isinstance(getattr(model, "head", None), TiedHead)
    if layout == PLAIN or (layout == "auto" and not on_cpu):
        return Layout(None, TiedHead if tied else None)
    tokens = min(tokens_per_pass, MOST_TOKENS)
    there = layers_by_preference(model, tokens) if on_cpu else {}
    if layout == "auto":
        layout = choose_layers(model, there, tokens, choices)
    elif layout not in there:
        dtype = str(model.dtype).removeprefix("torch.")
        raise ValueError(f"there is no layout {layout} for {dtype} on this {device}; "
                         "take auto or plain")
    head = choose_head(model.embedding, layout, tokens, choices) if tied else None
    return Layout(there[layout], head)


@torch.no_grad()
def choose_layers(model: Decoder, there: dict[str, MakeLayer | None], tokens: int,
                  choices: Choices) -> str:
    """Return the name of the layout for a model of these shapes.

    Takes up to a second for GPT-2 Large, and memory for five of its blocks; for a small model,
    five times SAMPLE bytes.
    """
    shapes = [tuple(layer.weight.shape) for layer in linear_layers(blocks_of(model)[0])]
    key = f"layers {shapes}, {model.dtype}, {tokens} tokens, of {', '.join(there)}"
    if choices.get(key) not in there:
        plain = sample(model)
        candidates: dict[str, list[Layer]] = {
            name: [build(layer.weight, layer.bias) if build else layer for layer in plain]
            for name, build in there.items()}
        widths = [layer.weight.shape[1] for layer in plain]
        found = choose(candidates, plain[0].weight, widths, tokens)
        if found is None:
            return next(iter(there))  # the preferred one; the next load tries again
        choices[key] = found
    return choices[key]


@torch.no_grad()
def choose_head(embedding: Tensor, layout: str, tokens: int, choices: Choices) -> type[TiedHead]:
    """Return the head for a model with this embedding, whose layers have this layout.

    The candidates share a part of a large embedding. Of a small one each has copies, SAMPLE bytes
    of them.
    """
    kind = "plain" if layout == PLAIN else "packed"
    heads = heads_by_preference(embedding, layout, tokens)
    key = (f"head {tuple(embedding.shape)}, {embedding.dtype}, {kind}, {tokens} tokens, "
           f"of {', '.join(heads)}")
    if choices.get(key) not in heads:
        n_vocab, width = embedding.shape
        n_vocab = min(n_vocab, 2 * SAMPLE // (width * embedding.dtype.itemsize))
        wte = torch.ones(n_vocab, width, dtype=embedding.dtype, device="cpu")
        copies = min(SAMPLE // wte.nbytes, 64)
        tables = [[wte.clone() for _ in range(copies)] or [wte] for _ in heads]
        candidates: dict[str, list[Layer]] = {
            name: [partial(HEADS[name](), wte=table) for table in own]
            for name, own in zip(heads, tables, strict=True)}
        found = choose(candidates, wte, [width] * max(1, copies), tokens)
        if found is None:
            return HEADS[heads[0]]  # as above
        choices[key] = found
    return HEADS[choices[key]]
