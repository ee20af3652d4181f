"""Which layouts and output heads are preferred, in a fixed order. README.md says why."""
from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.decoder import Decoder, TiedHead
from model.fast.onednn import OneDNNLinear
from model.fast.output_heads import ConvolvedHead, OneTokenHead, TurnedHead
from model.fast.packed import has_amx, has_kernel, on_intel
from model.fast.rows import RowHead, RowLinear
from model.fast.slabs import SlabLinear
from model.fast.strips import StripLinear
from model.fast.timing import blocks_of, linear_layers

PLAIN, ROWS, STRIPS, SLABS, ONEDNN = "plain", "rows", "strips", "slabs", "onednn"
HEADS = {head.__name__: head
         for head in (TiedHead, TurnedHead, OneTokenHead, ConvolvedHead, RowHead)}
HEADS_THAT_CAN_BE_TRAINED = (TiedHead, TurnedHead)
LARGE = 2**24  # bytes of a block's weights, or of an embedding, from which it counts as large

MakeLayer = Callable[[Tensor, Tensor | None], nn.Module]
LAYERS: dict[str, MakeLayer | None] = {PLAIN: None, ROWS: RowLinear, STRIPS: StripLinear,
                                       SLABS: SlabLinear, ONEDNN: OneDNNLinear}


def layers_by_preference(model: Decoder, tokens: int) -> dict[str, MakeLayer | None]:
    """Return, by name, what builds the layers of each layout there is here, the preferred first."""
    size = sum(layer.weight.nbytes for layer in linear_layers(blocks_of(model)[0]))
    large = size >= LARGE
    many = large and tokens >= 3
    if model.dtype == torch.bfloat16 and tokens == 1 and has_amx():
        order = [ROWS, ONEDNN, PLAIN, STRIPS]
    elif model.dtype in (torch.bfloat16, torch.float16):
        order = [ONEDNN, PLAIN, ROWS, STRIPS]
    elif many:
        order = [ONEDNN, STRIPS, PLAIN, ROWS, SLABS]
    elif on_intel():
        order = [PLAIN, STRIPS, ONEDNN, ROWS, SLABS]
    else:
        order = [SLABS, STRIPS] if large else [STRIPS, SLABS]
        order += [ONEDNN, PLAIN, ROWS]
    if not onednn_is_there(model.dtype):  # as where the processor has no kernel for the format
        order.remove(ONEDNN)
    return {name: LAYERS[name] for name in order}


def onednn_is_there(dtype: torch.dtype) -> bool:
    """Return whether this PyTorch and this processor can compute a layer with oneDNN.

    One matrix tells: oneDNN takes any shape of a format that it takes.
    """
    weight = torch.ones(16, 16, dtype=dtype, device="cpu")
    try:
        OneDNNLinear(weight, None)(weight)
    except (AttributeError, RuntimeError):  # no such operator, or not for this dtype
        return False
    return True


def heads_by_preference(embedding: Tensor, layout: str, tokens: int) -> list[str]:
    """Return the names of the heads there are here, the preferred one first."""
    if embedding.dtype == torch.bfloat16 and has_kernel(torch.bfloat16):
        order = [RowHead, TurnedHead, TiedHead, OneTokenHead, ConvolvedHead]
    elif embedding.dtype in (torch.bfloat16, torch.float16):
        order = [TiedHead, TurnedHead]  # oneDNN's may lack a kernel, and take seconds
    elif tokens >= 3 and embedding.nbytes >= LARGE:
        order = [ConvolvedHead, OneTokenHead, TurnedHead, TiedHead]
    elif on_intel():
        order = [TiedHead, TurnedHead, OneTokenHead, ConvolvedHead]
    else:
        order = [OneTokenHead, TurnedHead, TiedHead, ConvolvedHead]
    if layout == PLAIN:  # it may be trained, converted and moved, so it gets no head that may not
        order = [head for head in order if head in HEADS_THAT_CAN_BE_TRAINED]
    return [head.__name__ for head in order if is_there(head, embedding)]


def is_there(head: type[TiedHead], embedding: Tensor) -> bool:
    """Return whether this PyTorch and this processor can compute such a head."""
    wte = torch.ones(1, embedding.shape[1], dtype=embedding.dtype, device="cpu")
    try:
        for n in (1, 2):
            head()(wte.expand(1, n, -1), wte)
    except (AttributeError, RuntimeError):  # as above
        return False
    return True
