"""Where to run: what was asked for, checked against what is there."""
import torch


def check_graphs(device: str) -> None:
    """Raises ValueError for a device that has no CUDA graphs. On a CPU the compiler was tried instead: it gained nothing."""
    if device != "cuda":
        raise ValueError(f"--compile replays CUDA graphs, and this runs on {device}; leave it out")


def pick_device(name: str) -> str:
    """The device to run on; `auto` is the accelerator if there is one. Raises ValueError for one that is not there."""
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if present[device])
    if not present[name]:
        raise ValueError(f"there is no {name} device here; leave --device out, or say --device cpu")
    return name
