"""Filling a model with the weights that `weights.checkpoint` has found in files."""
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn

from model import Decoder
from weights.checkpoint import Stored
from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.tensors import TensorFile


def read_weights(weights: dict[str, Stored], model: Decoder, device: torch.device | str,
                 layer: Callable[[Tensor, Tensor | None], nn.Module] | None = None) -> None:
    """Fill the model of `find_weights` with the weights in the files, in the model's dtype.

    weights: of `find_weights`.
    layer: builds a linear layer, on the CPU, of a weight (n_out, n_in) and a bias (n_out,), if
        there is one, which it must copy; None for nn.Linear. A packed layer is built straight from
        the file: to write its weight as stored and pack it later would take up to twice as long.

    Memory: the model, and one layer at a time, the largest first, when there is little of the model
    yet. Raises WeightsError if a weight is not finite.
    """
    dtype = model.dtype
    parts = sorted(model.named_modules(), key=lambda named: -size(named[1]))
    # Where each weight is laid out before it is packed. Memory of its own for each would not go
    # back to the system: between what is kept, holes would be left that nothing fits into.
    linear = [size(part) for _, part in parts if isinstance(part, nn.Linear)]
    desk = torch.empty(max(linear) if layer is not None else 0, dtype=dtype)
    with ExitStack() as stack:
        files = {path: stack.enter_context(TensorFile(path))
                 for path in {stored.path for stored in weights.values()}}
        for name, part in parts:
            found = {}  # the weights of this part alone, not those of the parts inside it
            for leaf, _ in part.named_parameters(recurse=False):
                stored = weights[f"{name}.{leaf}"]
                tensor = files[stored.path].read(stored.key)
                if stored.cut is not None:  # nothing but this part of the file is touched
                    tensor = stored.cut.take(tensor, stored.turned)
                check_finite(tensor, stored.key, stored.path, dtype)
                found[leaf] = tensor.T if stored.turned else tensor
            if layer is not None and isinstance(part, nn.Linear):
                weight = desk[:found["weight"].numel()].view(part.weight.shape)
                bias = found["bias"].to(dtype) if "bias" in found else None
                model.set_submodule(name, layer(weight.copy_(found["weight"]), bias))
            else:
                for leaf, tensor in found.items():
                    own = copy_of(tensor, device, dtype)
                    setattr(part, leaf, nn.Parameter(own, requires_grad=False))


def size(part: nn.Module) -> int:
    """Return how many numbers a part of a model has, without those of the parts inside it."""
    return sum(weight.numel() for weight in part.parameters(recurse=False))


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
