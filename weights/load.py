"""load_model: from a name to a GPT-2 that is ready to run."""
import os
from pathlib import Path

import torch

from model import GPT2, OFFICIAL_CONFIGS, GPT2Config
from model.linear import choose
from weights.checkpoint import find_weights, read_weights
from weights.config import read_config
from weights.errors import WeightsError
from weights.hub import fetch
from weights.registry import OFFICIAL, Repository, resolve

WEIGHTS = "model.safetensors"


def load_model(name_or_path: str | os.PathLike, device: torch.device | str = "cpu",
               dtype: torch.dtype = torch.float32, linear: str = "auto", rows: int = 5) -> GPT2:
    """A model in eval mode that needs no gradients. `weights.registry.resolve` says how the name is read.

    linear: "auto" for the fastest matrix products there are here, "plain" for nn.Linear. rows: how many tokens it will read
    at once, gamma + 1 for a target, 1 for plain decoding, 2 for a draft. See `model.linear.choose` for both.

    Files of the hub are downloaded once, into its usual cache. Raises WeightsError if the name or its files are no good,
    DownloadError if a file cannot be fetched.
    """
    config, path = find_checkpoint(name_or_path)
    model, keys = find_weights(path, config, dtype)  # first: no time for choosing if the file is no good
    products = choose(config, device, dtype, linear, rows)
    read_weights(path, keys, model, device, products.layer)
    return products.finish(model.requires_grad_(False).eval())


def find_checkpoint(name_or_path: str | os.PathLike) -> tuple[GPT2Config, Path]:
    """The model's shape, and the file that holds its weights."""
    source = resolve(name_or_path)
    if name_or_path in OFFICIAL:
        return OFFICIAL_CONFIGS[name_or_path], fetch(source, WEIGHTS)
    if isinstance(source, Repository):
        config_file = fetch(source, "config.json")
        commit = config_file.parent.name  # the branch may move between two downloads; the weights must match the config
        return to_model_config(config_file), fetch(Repository(source.id, commit), WEIGHTS)
    return to_model_config(source / "config.json"), source / WEIGHTS


def to_model_config(path: Path) -> GPT2Config:
    """The config.json at `path` as a GPT2Config. Raises WeightsError if the sizes in it do not go together."""
    sizes = read_config(path)
    try:
        return GPT2Config(**sizes)
    except ValueError as error:
        raise WeightsError(f"{path}: {error}") from error
