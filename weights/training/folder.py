"""A model's folder, as `weights.load_model` and `weights.load_tokenizer` read it."""
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from model import GPT2Config
from weights.families import FAMILIES
from weights.output import replacing


def write_folder(folder: Path, config: GPT2Config, weights: Mapping[str, Tensor],
                 vocabulary_file: bytes, card: str) -> None:
    """Write config.json, model.safetensors, the vocabulary and a README.md, each replaced whole.

    weights: the model's state dict. Raises OSError if the disk does not take them.
    """
    folder.mkdir(exist_ok=True)
    files = {
        "vocabulary.tiktoken": vocabulary_file,
        "config.json": json.dumps(to_json_config(config), indent=2).encode() + b"\n",
        "README.md": card.encode(),
        "model.safetensors": save(to_official_layout(weights), metadata={"format": "pt"}),
    }
    for name, contents in files.items():
        with replacing(folder / name) as file:
            file.write_bytes(contents)


def to_official_layout(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors as the official files have them, here in half precision.

    Same names, matrices of the layers [in, out]. The head is the token embedding and is not stored
    again.
    """
    official = {name: weight.T if name.endswith(FAMILIES["gpt2"].turned) else weight
                for name, weight in weights.items()}
    return {name: weight.to("cpu", torch.float16).contiguous() for name, weight in official.items()}


def to_json_config(config: GPT2Config) -> dict:
    """Return config.json's entries, under the names the official files have."""
    return {"model_type": "gpt2", "n_layer": config.n_layer, "n_head": config.n_head,
            "n_embd": config.n_embd, "vocab_size": config.n_vocab + config.n_padding,
            "n_positions": config.n_ctx,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
