"""One model.safetensors file in GPT-2's official layout, read into a model tensor by tensor."""
import re
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from model import GPT2, GPT2Config
from model.shape import without_memory
from weights.diagnose import missing_file, what_is_wrong
from weights.errors import WeightsError

# The official files come from a layer type (Conv1D) that stores its matrix [in, out]; nn.Linear stores [out, in].
# By name, not by shape: attn.c_proj is square, and would fit either way.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
MASK_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # the causal mask: a constant, not a weight
FLOATS = ("F64", "F32", "F16", "BF16")


def find_weights(path: Path, config: GPT2Config, dtype: torch.dtype) -> tuple[GPT2, dict[str, str]]:
    """A model of this shape `without_memory`, and for each of its weights the key in the file.

    Reads the file's header, and the output head if there is one. Raises WeightsError if the file is not what its name says,
    or its tensors are not exactly those of such a model.
    """
    with open_weights(path) as file:
        keys = match_keys(file, path)
        if len(keys) < config.n_layer:  # before so many are made
            raise WeightsError(f"{path} has {len(keys)} tensors, too few for the {config.n_layer} layers its configuration says")
        model = without_memory(config, dtype)
        check_tensors(file, keys, model, path)
    return model, keys


def read_weights(path: Path, keys: dict[str, str], model: GPT2, device: torch.device | str,
                 layer: Callable[[Tensor, Tensor], nn.Module] | None = None) -> None:
    """Fill the model of `find_weights` with the weights in the file, on `device` and in the model's dtype.

    layer: what makes a linear layer, on the CPU, of a weight (n_out, n_in) and a bias (n_out,), which it must copy; None for
    nn.Linear. A weight that is stored in the model's dtype goes straight from the file to its place; to write it first as
    it is and then as it is wanted would take up to twice as long. Memory: the model, and one layer at a time.
    """
    dtype = model.wte.weight.dtype
    for name, part in list(model.named_modules()):
        stored = {leaf: read_tensor(path, keys[f"{name}.{leaf}"]) for leaf, _ in part.named_parameters(recurse=False)}
        if layer is not None and isinstance(part, nn.Linear):
            model.set_submodule(name, layer(stored["weight"].to(dtype), stored["bias"].to(dtype)))
        elif stored:
            part.load_state_dict({leaf: copy_of(tensor, device, dtype) for leaf, tensor in stored.items()}, assign=True)


def open_weights(path: Path) -> safe_open:
    """The file, memory-mapped; its header is read and found to agree with its length."""
    if not path.is_file():
        raise WeightsError(missing_file(path))
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} {what_is_wrong(path, error)}") from error


def match_keys(file: safe_open, path: Path) -> dict[str, str]:
    """For each weight, {its name in GPT2: its key in the file}. Drops the `transformer.` prefix and the mask buffers."""
    keys = {}
    for key in sorted(file.keys()):
        name = key.removeprefix("transformer.")
        if name in keys:
            raise WeightsError(f"{path} holds {name} twice, with and without the prefix 'transformer.'")
        if not MASK_BUFFER.fullmatch(name):
            keys[name] = key
    return keys


def check_tensors(file: safe_open, keys: dict[str, str], model: GPT2, path: Path) -> None:
    """Every weight of the model is there, in its shape and as floating point, and nothing else is."""
    weights = dict(model.named_parameters())
    for name, weight in weights.items():
        if name not in keys:
            raise WeightsError(f"{path} has no tensor {name}; is it a GPT-2 of the shape its configuration says?")
        stored = file.get_slice(keys[name])
        expected = list(weight.shape)[::-1] if name.endswith(CONV1D) else list(weight.shape)
        if stored.get_shape() != expected:
            raise WeightsError(f"{path}: {name} has the shape {stored.get_shape()}, its configuration needs {expected}")
        if stored.get_dtype() not in FLOATS:
            raise WeightsError(f"{path}: {name} is stored as {stored.get_dtype()}; only {', '.join(FLOATS)} are read")
    for name in keys:
        if name == "lm_head.weight":
            check_tied_head(file, keys, path)
        elif name not in weights:
            raise WeightsError(f"{path} has a tensor {name!r} that GPT-2 does not have")


def check_tied_head(file: safe_open, keys: dict[str, str], path: Path) -> None:
    """GPT-2's output head is its token embedding, so a file may repeat it but not change it."""
    head, wte = file.get_tensor(keys["lm_head.weight"]), file.get_tensor(keys["wte.weight"])
    if head.dtype != wte.dtype or not torch.equal(head, wte):
        raise WeightsError(f"{path}: lm_head.weight differs from wte.weight, but GPT-2's output head is tied to it")


def read_tensor(path: Path, key: str) -> Tensor:
    """One tensor, the way round that nn.Linear wants it, in the file's own memory: a copy of it has to be made.

    The file is opened anew for each: closing the map gives the pages just read back to the system. With one map for all,
    the process would end up holding both the file and the model.
    """
    with safe_open(path, framework="pt") as file:
        stored = file.get_tensor(key)
    return stored.T if key.endswith(CONV1D) else stored


def copy_of(stored: Tensor, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    return torch.empty(stored.shape, device=device, dtype=dtype).copy_(stored)
