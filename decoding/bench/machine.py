"""What the numbers were measured on."""
import platform
from pathlib import Path

import torch


def machine(device: str) -> dict[str, str | int]:
    """Return versions, threads and processor, which belong beside every measured number."""
    return {"device": device, "processor": processor(device), "threads": torch.get_num_threads(),
            "python": platform.python_version(), "torch": str(torch.__version__)}


def processor(device: str) -> str:
    """Return the name of what does the arithmetic."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    cpuinfo = Path("/proc/cpuinfo")  # Linux; elsewhere Python's own answer is good
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
