"""The shape of a GPT-2 without its memory: modules and sizes, for weights that come from somewhere else."""
import torch
from torch.overrides import TorchFunctionMode

from model.config import GPT2Config
from model.gpt2 import GPT2


def without_memory(config: GPT2Config, dtype: torch.dtype) -> GPT2:
    """A GPT-2 on PyTorch's meta device, where tensors have a shape and a dtype and nothing else."""
    with torch.device("meta"), NoInitialValues():
        return GPT2(config).to(dtype)


class NoInitialValues(TorchFunctionMode):
    """Modules made inside do not fill their weights. On the meta device there is nothing to fill, but PyTorch loads its
    compiler to find that out, which takes seconds."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        fills = getattr(function, "__module__", None) == "torch.nn.init" and function.__name__.endswith("_")
        return None if fills else function(*args, **(kwargs or {}))
