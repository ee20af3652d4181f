"""What the numbers were measured on."""
import platform

import torch

from weights.processor import cpu_name


def machine(device: str) -> dict[str, str | int]:
    """Return versions, threads and processor, which belong beside every measured number."""
    return {"device": device, "processor": processor(device), "threads": torch.get_num_threads(),
            "python": platform.python_version(), "torch": str(torch.__version__)}


def processor(device: str) -> str:
    """Return the name of what does the arithmetic."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return cpu_name()
