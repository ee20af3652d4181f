"""load_fast: the model of `load_model`, laid out in memory to decode fast on this processor."""
import os

import torch

from model import GPT2
from model.fast.layouts import layout_for
from weights.checkpoint import find_weights, read_weights
from weights.load import find_checkpoint


def load_fast(name_or_path: str | os.PathLike, device: torch.device | str = "cpu",
              dtype: torch.dtype = torch.float32, linear: str = "auto",
              tokens_per_pass: int = 5) -> GPT2:
    """Load a model for inference, straight from its file into the layout that is fastest here.

    linear: "auto" for the fastest layout there is here, "plain" for nn.Linear.
    tokens_per_pass: how many tokens it will read at once: gamma + 1 for a target, 1 for plain
        decoding, 2 for a draft.

    See `model.fast.layouts.layout_for` for these two, and `load_model` for the rest.
    """
    config, path = find_checkpoint(name_or_path)
    model, keys = find_weights(path, config, dtype)  # first: time nothing if the file is no good
    layout = layout_for(model, device, linear, tokens_per_pass)
    read_weights(path, keys, model, device, layout.layer)
    model.head = layout.head()
    return model.requires_grad_(False).eval()
