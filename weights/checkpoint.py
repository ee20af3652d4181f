"""A model's weights, found in safetensors files of the official layouts.

`find_weights` checks every name and shape before anything large is read. `weights.fill` then fills
the model, a layer at a time.
"""
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from model import GPT2, Decoder, GPT2Config
from model.config import Config
from model.families import (
    OPT,
    GPTNeo,
    GPTNeoConfig,
    GPTNeoX,
    GPTNeoXConfig,
    Llama,
    LlamaConfig,
    OPTConfig,
)
from model.meta import without_memory
from model.split import Cut
from weights.errors import WeightsError
from weights.families import FAMILIES, Family
from weights.tensors import FLOATS, TensorFile, open_weights

MODELS: dict[str, tuple[type[Config], type[Decoder]]] = {  # by model_type
    "gpt2": (GPT2Config, GPT2), "gpt_neo": (GPTNeoConfig, GPTNeo), "opt": (OPTConfig, OPT),
    "gpt_neox": (GPTNeoXConfig, GPTNeoX), "llama": (LlamaConfig, Llama)}


@dataclass(frozen=True)
class Checkpoint:
    """A model on the disk: its model_type, its shape, and the files that hold its weights."""

    family: str
    config: Config
    files: list[Path]  # one, or all shards

    @property
    def place(self) -> Path:
        """What to name in a message about all of the files."""
        return self.files[0] if len(self.files) == 1 else self.files[0].parent


class Stored(NamedTuple):
    """Where a weight is, and how it is stored."""

    path: Path
    key: str
    shape: list[int]
    dtype: str  # as safetensors calls it
    turned: bool  # whether nn.Linear has the matrix the other way round
    cut: Cut | None = None  # which part of it is read; None for all of it


def find_weights(checkpoint: Checkpoint, dtype: torch.dtype) -> tuple[Decoder, dict[str, Stored]]:
    """Return a model of this shape `without_memory`, and {name in the model: where it is stored}.

    Reads the files' headers, and the output head if there is one that is tied. Raises WeightsError
    if a file is not what its name says, or the tensors are not exactly those of such a model.
    """
    family = FAMILIES[checkpoint.family]
    weights = match_keys(checkpoint.files, family)
    if len(weights) < checkpoint.config.n_layer:  # before so many layers are made
        raise WeightsError(f"{checkpoint.place} has {len(weights)} tensors, too few for the "
                           f"{checkpoint.config.n_layer} layers its configuration says")
    model = without_memory(MODELS[checkpoint.family][1], checkpoint.config, dtype)
    repeated = without_head(weights, model, family)
    check_tensors(weights, model, checkpoint.place)
    if repeated is not None:
        check_tied(*repeated)
    return model, weights


def match_keys(files: list[Path], family: Family) -> dict[str, Stored]:
    """Return {name in the model: where it is stored}, without the prefix, and without constants.

    Where a tensor is, the files themselves say: an index of shards cannot be wrong about it.
    """
    weights: dict[str, Stored] = {}
    for path in files:
        with open_weights(path) as file:
            for key in sorted(file.keys()):
                start = family.prefix.match(key)
                name = key[start.end():] if start else key
                if family.constants.fullmatch(name):
                    continue
                if name in weights:
                    raise WeightsError(f"{path} holds {name} twice: as {key}, and as "
                                       f"{weights[name].key} in {weights[name].path.name}")
                tensor = file.get_slice(key)
                weights[name] = Stored(path, key, tensor.get_shape(), tensor.get_dtype(),
                                       name.endswith(family.turned))
    return weights


def without_head(weights: dict[str, Stored], model: Decoder,
                 family: Family) -> tuple[Stored, Stored] | None:
    """Drop the output head of a tied model, which is its embedding; return both if both are stored.

    A file may have the matrix under either name, or under both.
    """
    if family.tied is None or family.tied[0] not in weights:
        return None
    head, embedding = family.tied
    if head in dict(model.named_parameters()):  # this one is not tied
        return None
    stored = weights.pop(head)
    if embedding not in weights:
        weights[embedding] = stored
        return None
    return stored, weights[embedding]


def check_tied(head: Stored, embedding: Stored) -> None:
    """Raise WeightsError unless a repeated token embedding equals the first."""
    with TensorFile(head.path) as one, TensorFile(embedding.path) as other:
        a, b = one.read(head.key), other.read(embedding.key)
        if a.dtype != b.dtype or not torch.equal(a, b):
            raise WeightsError(f"{head.path}: {head.key} differs from {embedding.key}, "
                               "but the output head is tied to it")


def check_tensors(weights: dict[str, Stored], model: Decoder, place: Path) -> None:
    """Raise WeightsError unless just the model's weights are there, in its shapes, as floats."""
    kind, wanted = type(model).__name__, dict(model.named_parameters())
    for name, weight in wanted.items():
        if name not in weights:
            raise WeightsError(f"{place} has no tensor {name}; "
                               f"is it a {kind} of the shape its configuration says?")
        stored = weights[name]
        expected = list(weight.shape)[::-1] if stored.turned else list(weight.shape)
        if stored.shape != expected:
            raise WeightsError(f"{stored.path}: {name} has the shape {stored.shape}, "
                               f"its configuration needs {expected}")
        if stored.dtype not in FLOATS:
            raise WeightsError(f"{stored.path}: {name} is stored as {stored.dtype}; "
                               f"only {', '.join(FLOATS)} are read")
    for name, stored in weights.items():
        if name not in wanted:
            raise WeightsError(f"{stored.path} has a tensor {name!r} that {kind} does not have")


def stored_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """Return the number format that most of a model's numbers are stored in."""
    count: dict[torch.dtype, int] = {}
    for stored in match_keys(checkpoint.files, FAMILIES[checkpoint.family]).values():
        dtype = FLOATS.get(stored.dtype, torch.float32)
        count[dtype] = count.get(dtype, 0) + torch.Size(stored.shape).numel()
    return max(count, key=lambda dtype: count[dtype])
