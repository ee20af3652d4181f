"""load_model: from a name to a GPT-2 that is ready to run."""
import os
from pathlib import Path

import torch

from model import GPT2, OFFICIAL_CONFIGS, GPT2Config
from weights.checkpoint import find_weights, read_weights
from weights.config import read_config
from weights.errors import WeightsError
from weights.hub import fetch
from weights.registry import OFFICIAL, WEIGHTS, Repository, resolve
from weights.tokenizer import count_tokens


def load_model(name_or_path: str | os.PathLike, device: torch.device | str = "cpu",
               dtype: torch.dtype = torch.float32) -> GPT2:
    """Load a model in eval mode that needs no gradients.

    name_or_path: `weights.registry.resolve` says how it is read.
    device, dtype: where the weights go, and in which number format.

    Files of the hub are downloaded once, into its usual cache. Raises WeightsError if the name or
    its files are no good, DownloadError if a file cannot be fetched. `weights.load_fast` loads the
    same model, faster for decoding on a CPU.
    """
    config, path = find_checkpoint(name_or_path)
    model, keys = find_weights(path, config, dtype)
    read_weights(path, keys, model, device)
    return model.requires_grad_(False).eval()


def find_checkpoint(name_or_path: str | os.PathLike) -> tuple[GPT2Config, Path]:
    """Find the model's shape, and the file that holds its weights."""
    source = resolve(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in OFFICIAL:
        return OFFICIAL_CONFIGS[name_or_path], fetch(OFFICIAL[name_or_path], WEIGHTS)
    if isinstance(source, Repository):
        file = fetch(source, "config.json")
        commit = file.parent.name  # the branch may move between two downloads; both must match
        return to_model_config(file, source), fetch(Repository(source.id, commit), WEIGHTS)
    return to_model_config(source / "config.json", source), source / WEIGHTS


def to_model_config(path: Path, source: Path | Repository) -> GPT2Config:
    """Read the config.json at `path`, and count the tokens of its model.

    Raises WeightsError if the sizes in it do not go together, or its vocabulary is no good.
    """
    sizes = read_config(path)
    n_rows = sizes.pop("n_rows")
    n_vocab = count_tokens(source, n_rows)
    try:
        return GPT2Config(**sizes, n_vocab=n_vocab, n_padding=n_rows - n_vocab)
    except ValueError as error:
        raise WeightsError(f"{path}: {error}") from error
