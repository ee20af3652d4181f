"""load_model: from a name to a model that is ready to run."""
import os
import re
from pathlib import Path

import torch

from model import OFFICIAL_CONFIGS, Decoder
from model.rotary import Rope
from weights.checkpoint import MODELS, Checkpoint, find_weights
from weights.config import read_config
from weights.diagnose import fetch_again, missing_weights
from weights.errors import WeightsError
from weights.files import parse_json, reading
from weights.fill import read_weights
from weights.hub import fetch, find_file, first_of
from weights.registry import BIN, BIN_INDEX, INDEX, OFFICIAL, WEIGHTS, Repository, resolve
from weights.tokenizer import count_tokens


def load_model(name_or_path: str | os.PathLike, device: torch.device | str = "cpu",
               dtype: torch.dtype = torch.float32) -> Decoder:
    """Load a model in eval mode that needs no gradients.

    name_or_path: `weights.registry.resolve` says how it is read.
    device, dtype: where the weights go, and in which number format.

    Files of the hub are downloaded once, into its usual cache. Raises WeightsError if the name or
    its files are no good, DownloadError if a file cannot be fetched. `weights.load_fast` loads the
    same model, faster for decoding on a CPU.
    """
    model, weights = find_weights(find_checkpoint(name_or_path), dtype)
    read_weights(weights, model, device)
    return model.requires_grad_(False).eval()


def find_checkpoint(name_or_path: str | os.PathLike) -> Checkpoint:
    """Find the model's family and shape, and the files that hold its weights."""
    source = resolve(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in OFFICIAL:
        return Checkpoint("gpt2", OFFICIAL_CONFIGS[name_or_path],
                          [fetch(OFFICIAL[name_or_path], WEIGHTS)])
    path = find_file(source, "config.json")
    if isinstance(source, Repository):  # the branch may move between two downloads
        source = Repository(source.id, path.parent.name)
    family, sizes = read_config(path)
    n_rows = sizes.pop("n_rows")
    n_vocab = count_tokens(source, family, n_rows)
    if "rope" in sizes:
        sizes["rope"] = Rope(**sizes["rope"])
    try:
        config = MODELS[family][0](**sizes, n_vocab=n_vocab, n_padding=n_rows - n_vocab)
    except ValueError as error:  # the sizes do not go together
        raise WeightsError(f"{path}: {error}") from error
    return Checkpoint(family, config, find_files(source, os.fspath(name_or_path)))


def find_files(source: Path | Repository, name: str) -> list[Path]:
    """Return the one file of weights, or all of the shards that an index names.

    name: the source as the user knows it. Raises WeightsError if it has no safetensors files; what
    it proposes for a repository is a folder of the same name, which is then what the name means.
    """
    there = first_of(source, WEIGHTS, INDEX)
    if there == WEIGHTS:
        return [find_file(source, WEIGHTS)]
    if there == INDEX:
        return [find_file(source, shard) for shard in read_index(find_file(source, INDEX))]
    out = source.id if isinstance(source, Repository) else f"{name}-safetensors"
    raise WeightsError(missing_weights(name, first_of(source, BIN, BIN_INDEX), out))


def read_index(path: Path) -> list[str]:
    """Return the names of the shards, which lie beside their index.

    That is all an index is read for: where each tensor is, the shards say themselves.
    """
    with reading(path):
        contents = path.read_bytes()
    try:
        names = sorted(set(parse_json(contents)["weight_map"].values()))
        if not names or not all(re.fullmatch(r"[\w.-]+", name) for name in names):
            raise ValueError("it names no files beside it")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path} is not an index of shards ({error}); "
                           f"{fetch_again(path)}") from error
    return names
