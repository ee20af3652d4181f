"""What no machine can do is refused before it begins: more memory than there is.

Imports no torch for a CPU.
"""
import math
import os


def check_memory(needed: float, what: str, device: str = "cpu") -> None:
    """Raise ValueError if `what` needs more bytes than the device has."""
    present = total_memory(device)
    if needed > present:
        raise ValueError(f"{what} needs at least {gigabytes(needed)} of memory, and there are "
                         f"{gigabytes(present)} here; ask for less")


def total_memory(device: str) -> float:
    """Return a device's memory in bytes; infinity where the system does not tell (Windows)."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_properties(device).total_memory
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gigabytes(n: float) -> str:
    return f"{n / 1e9:,.3g} GB" if n < 1e12 else f"{n / 1e9:.0e} GB"
