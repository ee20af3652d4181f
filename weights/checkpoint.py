"""GPT-2's weights: found in a model.safetensors of the official layout, then read into a model.

`find_weights` checks every name and shape before anything large is read. `read_weights` then fills
the model, a layer at a time.
"""
import re
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from model import GPT2, GPT2Config
from model.meta import without_memory
from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.tensors import FLOATS, open_weights, read_header, read_tensor

# The official files come from a layer type (Conv1D) that stores its matrix [in, out]; nn.Linear
# stores [out, in]. By name, not by shape: attn.c_proj is square, and would fit either way.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
MASK_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # the causal mask, no weight


def find_weights(path: Path, config: GPT2Config, dtype: torch.dtype) -> tuple[GPT2, dict[str, str]]:
    """Return a model of this shape `without_memory`, and {its name: the file's key} of each weight.

    Reads the file's header, and the output head if there is one. Raises WeightsError if the file is
    not what its name says, or its tensors are not exactly those of such a model.
    """
    with open_weights(path) as file:
        keys = match_keys(file, path)
        if len(keys) < config.n_layer:  # before so many layers are made
            raise WeightsError(f"{path} has {len(keys)} tensors, too few for the {config.n_layer} "
                               "layers its configuration says")
        model = without_memory(config, dtype)
        check_tensors(file, keys, model, path)
    return model, keys


def match_keys(file: safe_open, path: Path) -> dict[str, str]:
    """Return {name in GPT2: key in the file}, without the prefix and the mask buffers."""
    keys = {}
    for key in sorted(file.keys()):
        name = key.removeprefix("transformer.")
        if name in keys:
            raise WeightsError(f"{path} holds {name} twice, "
                               "with and without the prefix 'transformer.'")
        if not MASK_BUFFER.fullmatch(name):
            keys[name] = key
    return keys


def check_tensors(file: safe_open, keys: dict[str, str], model: GPT2, path: Path) -> None:
    """Raise WeightsError unless just the model's weights are there, in its shapes, as floats."""
    weights = dict(model.named_parameters())
    for name, weight in weights.items():
        if name not in keys:
            raise WeightsError(f"{path} has no tensor {name}; "
                               "is it a GPT-2 of the shape its configuration says?")
        stored = file.get_slice(keys[name])
        expected = list(weight.shape)[::-1] if name.endswith(CONV1D) else list(weight.shape)
        if stored.get_shape() != expected:
            raise WeightsError(f"{path}: {name} has the shape {stored.get_shape()}, "
                               f"its configuration needs {expected}")
        if stored.get_dtype() not in FLOATS:
            raise WeightsError(f"{path}: {name} is stored as {stored.get_dtype()}; "
                               f"only {', '.join(FLOATS)} are read")
    for name in keys:
        if name == "lm_head.weight":
            check_tied_head(file, keys, path)
        elif name not in weights:
            raise WeightsError(f"{path} has a tensor {name!r} that GPT-2 does not have")


def check_tied_head(file: safe_open, keys: dict[str, str], path: Path) -> None:
    """Raise WeightsError unless a repeated token embedding equals the first."""
    head, wte = file.get_tensor(keys["lm_head.weight"]), file.get_tensor(keys["wte.weight"])
    if head.dtype != wte.dtype or not torch.equal(head, wte):
        raise WeightsError(f"{path}: lm_head.weight differs from wte.weight, "
                           "but GPT-2's output head is tied to it")


def read_weights(path: Path, keys: dict[str, str], model: GPT2, device: torch.device | str,
                 layer: Callable[[Tensor, Tensor], nn.Module] | None = None) -> None:
    """Fill the model of `find_weights` with the weights in the file, in the model's dtype.

    keys: {name in the model: key in the file}, of `find_weights`.
    layer: builds a linear layer, on the CPU, of a weight (n_out, n_in) and a bias (n_out,), which
        it must copy; None for nn.Linear. A packed layer is built straight from the file: to write
        its weight as stored and pack it later would take up to twice as long.

    Memory: the model, and one layer at a time. Raises WeightsError if a weight is not finite.
    """
    dtype = model.dtype
    with path.open("rb") as file:
        entries = read_header(file)
        for name, part in list(model.named_modules()):
            stored = {}  # the weights of this part alone, not those of the parts inside it
            for leaf, _ in part.named_parameters(recurse=False):
                key = keys[f"{name}.{leaf}"]
                tensor = read_tensor(file, entries[key])
                check_finite(tensor, key, path, dtype)
                stored[leaf] = tensor.T if key.endswith(CONV1D) else tensor
            if layer is not None and isinstance(part, nn.Linear):
                weight, bias = stored["weight"].to(dtype), stored["bias"].to(dtype)
                model.set_submodule(name, layer(weight, bias))
            elif stored:
                weights = {leaf: copy_of(tensor, device, dtype) for leaf, tensor in stored.items()}
                part.load_state_dict(weights, assign=True)


def check_finite(stored: Tensor, key: str, path: Path, dtype: torch.dtype) -> None:
    """Raise WeightsError if a weight is NaN or infinite, as it is stored or in this dtype."""
    extremes = stored.aminmax()
    if not all(extreme.isfinite() for extreme in extremes):
        raise WeightsError(f"{path}: {key} holds NaN or infinity; {fetch_again(path)}, "
                           "or train it again")
    if not all(extreme.to(dtype).isfinite() for extreme in extremes):
        name = str(dtype).removeprefix("torch.")
        raise WeightsError(f"{path}: {key} has weights too large for {name}; take a wider dtype")


def copy_of(stored: Tensor, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """Return a copy in memory of its own, on this device and in this dtype."""
    return torch.empty(stored.shape, device=device, dtype=dtype).copy_(stored)
