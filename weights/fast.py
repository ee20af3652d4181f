"""load_fast: the model of `load_model`, laid out in memory to decode fast on this processor."""
import os

import torch

from model import Decoder
from model.fast.layouts import give_head, layout_for
from model.fast.packed import has_kernel
from weights.checkpoint import find_weights, stored_dtype
from weights.choices import Choices
from weights.fill import read_weights
from weights.load import find_checkpoint


def load_fast(name_or_path: str | os.PathLike, device: torch.device | str = "cpu",
              dtype: torch.dtype = torch.float32, layout: str = "auto",
              tokens_per_pass: int = 5) -> Decoder:
    """Load a model for inference, straight from its file into the layout that is best here.

    layout: "auto" for the best there is here, "plain" for nn.Linear, or "rows", "strips", "slabs",
        "onednn".
    tokens_per_pass: how many tokens it will read at once: gamma + 1 for a target, 1 for plain
        decoding, 2 for a draft.

    See `model.fast.layouts.layout_for` for these two, and `load_model` for the rest.
    """
    checkpoint = find_checkpoint(name_or_path)
    model, weights = find_weights(checkpoint, dtype)  # first: time nothing if a file is no good
    found = layout_for(model, device, layout, tokens_per_pass, Choices())
    read_weights(weights, model, device, found.layer)
    give_head(model, found.head)
    return model.requires_grad_(False).eval()


def pick_dtype(name: str, name_or_path: str | os.PathLike, device: str) -> torch.dtype:
    """Return the number format to run a model in.

    name: of a format; "auto" for that of most numbers in the model's files, or float32 where this
        is a CPU that has no kernel for it.
    """
    if name != "auto":
        return getattr(torch, name)
    stored = stored_dtype(find_checkpoint(name_or_path))
    runs = stored != torch.float64 and (device != "cpu" or has_kernel(stored))
    return stored if runs else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """Return the format's name as options have it."""
    return str(dtype).removeprefix("torch.")
