"""One model.safetensors file in GPT-2's official layout, read into a model tensor by tensor.

The safetensors library opens the file once and checks it. It is opened once more to read it:
opening it anew for every tensor would be slow on a network drive.
"""
import json
import mmap
import re
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from model import GPT2, GPT2Config
from model.meta import without_memory
from weights.diagnose import FETCH_AGAIN, missing_file, what_is_wrong
from weights.errors import WeightsError

# The official files come from a layer type (Conv1D) that stores its matrix [in, out]; nn.Linear
# stores [out, in]. By name, not by shape: attn.c_proj is square, and would fit either way.
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
MASK_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # the causal mask, no weight
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def find_weights(path: Path, config: GPT2Config, dtype: torch.dtype) -> tuple[GPT2, dict[str, str]]:
    """Make a model of this shape `without_memory`, and find the key of each weight in the file.

    Reads the file's header, and the output head if there is one. Raises WeightsError if the file is
    not what its name says, or its tensors are not exactly those of such a model.
    """
    with open_weights(path) as file:
        keys = match_keys(file, path)
        if len(keys) < config.n_layer:  # before so many are made
            raise WeightsError(f"{path} has {len(keys)} tensors, too few for the {config.n_layer} "
                               "layers its configuration says")
        model = without_memory(config, dtype)
        check_tensors(file, keys, model, path)
    return model, keys


def read_weights(path: Path, keys: dict[str, str], model: GPT2, device: torch.device | str,
                 layer: Callable[[Tensor, Tensor], nn.Module] | None = None) -> None:
    """Fill the model of `find_weights` with the weights in the file, in the model's dtype.

    layer: builds a linear layer, on the CPU, of a weight (n_out, n_in) and a bias (n_out,), which
    it must copy; None for nn.Linear. Writing a weight twice (as stored, then repacked) would take
    up to twice as long.

    Memory: the model, and one layer at a time. Raises WeightsError if a weight is not finite.
    """
    dtype = model.dtype
    with path.open("rb") as file:
        entries = read_header(file)
        for name, part in list(model.named_modules()):
            stored = {}
            for leaf, _ in part.named_parameters(recurse=False):
                key = keys[f"{name}.{leaf}"]
                tensor = read_tensor(file, entries[key])
                check_finite(tensor, key, path)
                stored[leaf] = tensor.T if key.endswith(CONV1D) else tensor
            if layer is not None and isinstance(part, nn.Linear):
                weight, bias = stored["weight"].to(dtype), stored["bias"].to(dtype)
                model.set_submodule(name, layer(weight, bias))
            elif stored:
                weights = {leaf: copy_of(tensor, device, dtype) for leaf, tensor in stored.items()}
                part.load_state_dict(weights, assign=True)


def open_weights(path: Path) -> safe_open:
    """Open the file; its header is read and found to agree with its length."""
    if not path.is_file():
        raise WeightsError(missing_file(path))
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} {what_is_wrong(path, error)}") from error


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


def read_header(file: BufferedReader) -> dict[str, dict]:
    """Return, by key, each tensor's dtype and shape, and where its bytes are in the file."""
    size = int.from_bytes(file.read(8), "little")
    entries = json.loads(file.read(size))
    entries.pop("__metadata__", None)
    for entry in entries.values():
        entry["bytes"] = [8 + size + offset for offset in entry["data_offsets"]]
    return entries


def read_tensor(file: BufferedReader, entry: dict) -> Tensor:
    """Return one tensor as it is stored, in the file's own memory: a copy of it has to be made.

    Each tensor has a memory map of its own, which goes with it and gives its pages back to the
    system. With one map for all, the process would end up holding both the file and the model.
    """
    start, end = entry["bytes"]
    before = start % mmap.ALLOCATIONGRANULARITY  # where maps can begin
    pages = mmap.mmap(file.fileno(), end - start + before, offset=start - before,
                      access=mmap.ACCESS_COPY)  # PyTorch warns of memory that cannot be written
    dtype = FLOATS[entry["dtype"]]
    count = (end - start) // dtype.itemsize
    return torch.frombuffer(pages, dtype=dtype, count=count, offset=before).view(entry["shape"])


def check_finite(stored: Tensor, key: str, path: Path) -> None:
    """Raise WeightsError if a weight is NaN or infinite."""
    if not all(extreme.isfinite() for extreme in stored.aminmax()):
        raise WeightsError(f"{path}: {key} holds NaN or infinity; {FETCH_AGAIN}, or train it again")


def copy_of(stored: Tensor, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    return torch.empty(stored.shape, device=device, dtype=dtype).copy_(stored)
