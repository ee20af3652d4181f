"""What packed linear layers share: inference only, and a copy is an nn.Linear again."""
import platform
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """nn.Linear for inference, its weight laid out in another way. A kind says `to_plain`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, n_out: int) -> None:
        """Keep the packed weight, and a copy of the bias, as parameters without gradients.

        Where there is no bias, zeros are added.
        """
        super().__init__()
        self.has_bias = bias is not None
        if bias is None:
            bias = torch.zeros(n_out, dtype=weight.dtype, device=weight.device)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)  # (n_out,)

    def to_plain(self) -> Tensor:
        """Return a copy of the weight as nn.Linear has it, (n_out, n_in)."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict) -> nn.Linear:
        """Return an nn.Linear: a copy can be converted, moved and trained."""
        weight = self.to_plain()
        n_out, n_in = weight.shape
        copy = nn.Linear(n_in, n_out, self.has_bias, device="meta", dtype=weight.dtype)
        copy.weight = nn.Parameter(weight, requires_grad=False)
        if self.has_bias:
            copy.bias = nn.Parameter(self.bias.detach().clone(), requires_grad=False)
        return copy

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.to_plain()  # as any model can load it
        if self.has_bias:
            destination[prefix + "bias"] = self.bias if keep_vars else self.bias.detach()

    def _apply(self, fn, recurse: bool = True) -> nn.Module:
        """Refuse .to(), .half() and their like, which cannot change a packed weight."""
        new = fn(self.bias)
        if (new.device, new.dtype) != (self.bias.device, self.bias.dtype):
            raise RuntimeError("a packed model keeps its device and dtype; "
                               "convert copy.deepcopy(model), which is a plain one")
        return self


def has_kernel(dtype: torch.dtype) -> bool:
    """Return whether this processor multiplies numbers of this format by itself.

    Without, PyTorch converts them to float32 and back, which is slower than float32 alone.
    """
    try:
        if dtype == torch.bfloat16:
            return torch.cpu._is_avx512_bf16_supported() or has_amx()
        if dtype == torch.float16:
            return torch.ops.mkldnn._is_mkldnn_fp16_supported()
    except AttributeError:  # not in this PyTorch, which then has no such kernel either
        return False
    return dtype in (torch.float32, torch.float64)


def has_amx() -> bool:
    """Return whether the processor multiplies tiles of bfloat16 (Intel's AMX)."""
    try:
        return torch.cpu._is_amx_tile_supported()
    except AttributeError:  # not in this PyTorch
        return False


@cache
def on_intel() -> bool:
    """Return whether the processor is Intel's, for which MKL, a library inside PyTorch, is made."""
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python's own answer names the maker, too
    name = cpuinfo.read_text() if cpuinfo.exists() else platform.processor()
    return "GenuineIntel" in name and torch.backends.mkl.is_available()
