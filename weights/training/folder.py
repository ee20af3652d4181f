"""A model's folder, as `weights.load_model` and `weights.load_tokenizer` read it."""
import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from model import GPT2Config
from weights.checkpoint import CONV1D


def write_folder(folder: Path, config: GPT2Config, weights: Mapping[str, Tensor], vocabulary_file: bytes, card: str) -> None:
    """Write config.json, model.safetensors, the vocabulary and a README.md, each replaced whole.

    weights: the model's state dict. Raises OSError if the disk does not take them.
    """
    folder.mkdir(exist_ok=True)
    replace(folder / "vocabulary.tiktoken", vocabulary_file)
    replace(folder / "config.json", json.dumps(to_json_config(config), indent=2).encode() + b"\n")
    replace(folder / "README.md", card.encode())
    replace(folder / "model.safetensors", save(to_official_layout(weights), metadata={"format": "pt"}))


def to_official_layout(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the official files: same names, matrices of the layers [in, out], here in half precision.

    The head is the token embedding and is not stored again.
    """
    return {name: (weight.T if name.endswith(CONV1D) else weight).to("cpu", torch.float16).contiguous()
            for name, weight in weights.items()}


def to_json_config(config: GPT2Config) -> dict:
    """config.json's entries, under the names the official files have."""
    return {"model_type": "gpt2", "n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd,
            "vocab_size": config.n_vocab + config.n_padding, "n_positions": config.n_ctx,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}


def replace(path: Path, contents: bytes) -> None:
    """Write a file so that at every moment the old one or the new one is there, whole."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_bytes(contents)
    os.replace(unfinished, path)
