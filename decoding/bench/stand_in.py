"""A small random checkpoint in the place of one that is not here, so that a program can be tried.

It is of the same family, in the official layout, with the 256 bytes and end-of-text for tokens.
"""
import argparse
import base64
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from weights.checkpoint import MODELS
from weights.config import read_config
from weights.families import FAMILIES
from weights.load import to_config
from weights.output import replacing
from weights.terminal import tell

N_CTX = 2048
USUAL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32,
         "max_position_embeddings": N_CTX, "intermediate_size": 64}
# By how a name begins, without its owner: config.json without the vocabulary.
KINDS: dict[str, dict[str, Any]] = {
    "pythia": {"model_type": "gpt_neox", **USUAL, "tie_word_embeddings": False},
    "opt": {"model_type": "opt", **USUAL, "ffn_dim": 64},
    "gpt-neo": {"model_type": "gpt_neo", "num_layers": 2, "num_heads": 4, "hidden_size": 32,
                "attention_types": [[["global", "local"], 1]], "max_position_embeddings": N_CTX},
    "Llama": {"model_type": "llama", **USUAL, "num_key_value_heads": 2,
              "tie_word_embeddings": True},
    "deepseek": {"model_type": "llama", **USUAL,
                 "rope_scaling": {"type": "linear", "factor": 4.0}},
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": N_CTX},
}


def stand_in(options: argparse.Namespace) -> None:
    """Put random models in the place of options.target and options.draft.

    They and all results go into a folder of their own, beside options.out. Raises ValueError as
    `write_stand_in` does.
    """
    tell("--stand-in: small random models; nothing here is a result")
    options.out = options.out.with_name(f"{options.out.name}-stand-in")
    for role in ("target", "draft"):
        name = getattr(options, role)
        folder = options.out / re.sub(r"[^\w.-]", "-", name)
        write_stand_in(name, folder)
        setattr(options, role, str(folder.absolute()))


@torch.no_grad()
def write_stand_in(name: str, folder: Path) -> None:
    """Write a checkpoint for a known name into a folder; the same one every time.

    Raises ValueError for a name of no known family.
    """
    own = name.rpartition("/")[2]
    kind = next((kind for start, kind in KINDS.items() if own.startswith(start)), None)
    if kind is None:
        raise ValueError(f"no stand-in is known for {name}; there is one for names that begin with "
                         f"{', '.join(KINDS)}")
    folder.mkdir(parents=True, exist_ok=True)
    config = {**kind, "vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256}
    with replacing(folder / "config.json") as file:
        file.write_text(json.dumps(config))
    with replacing(folder / "bytes.tiktoken") as file:
        file.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte
                                  for byte in range(256)))
    family, sizes = read_config(folder / "config.json")
    model = MODELS[family][1](to_config(family, sizes, n_vocab=257))
    generator = torch.Generator().manual_seed(sum(name.encode()))
    for weight in model.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    turned = FAMILIES[family].turned
    with replacing(folder / "model.safetensors") as file:
        save_file({key: (weight.T if turned and key.endswith(turned) else weight).contiguous()
                   for key, weight in model.state_dict().items()}, file)
