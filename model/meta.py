"""A model of the right shapes on PyTorch's meta device, without memory: loading starts from it."""
from collections.abc import Callable
from typing import TypeVar

import torch
from torch.overrides import TorchFunctionMode

from model.decoder import Decoder

Config = TypeVar("Config")


def without_memory(kind: Callable[[Config], Decoder], config: Config,
                   dtype: torch.dtype) -> Decoder:
    """Return a model on PyTorch's meta device: its tensors have a shape and a dtype, no memory.

    kind: the model's class.
    """
    with torch.device("meta"), NoInitialValues():
        return kind(config).to(dtype)


class NoInitialValues(TorchFunctionMode):
    """A block inside which new modules leave their weights as they are.

    On the meta device there is nothing to fill, but PyTorch loads its compiler to find that out,
    which takes seconds.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        module, name = getattr(function, "__module__", None), function.__name__
        fills = module == "torch.nn.init" and name.endswith("_")
        return None if fills else function(*args, **(kwargs or {}))
