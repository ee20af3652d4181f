"""What to tell a user whose weights file is missing or cannot be read, and what to do about it."""
from pathlib import Path

from weights.files import parse_json


def fetch_again(path: Path) -> str:
    """Return what to do about a file that is no good.

    In the hub's cache a file is a link, where the system has links: as long as what it leads to is
    there, nothing is fetched.
    """
    cached = any(part.startswith("models--") for part in path.parts) or path.is_symlink()
    if cached and "snapshots" in path.parts:
        return f"delete {path.resolve()} and run again, it is then fetched again"
    return "fetch it again"


def missing_weights(name: str, instead: str | None, out: str) -> str:
    """Return one line about a folder or a repository that has no safetensors files.

    name: as the user knows it.
    instead: the file for PyTorch that it has, if any.
    out: a folder for its weights as safetensors.
    """
    if instead is None:
        return f"{name} has no model.safetensors"
    return (f"{name} holds {instead}, a pickle, which can run code when it is read; run `python -m "
            f"weights.convert {name} {out}`, which reads the numbers in it and nothing else, and "
            f"makes a folder {out} with model.safetensors")


def what_is_wrong(path: Path, error: Exception) -> str:
    """Return what is wrong with a file that safetensors has refused: the end of "PATH ...".

    error: what safetensors raised. Only the file's beginning is read.
    """
    if isinstance(error, OSError):
        return f"cannot be read: {error}"
    size = path.stat().st_size
    if size == 0:
        return f"is empty; {fetch_again(path)}"
    with path.open("rb") as file:
        start = file.read(100)
        if start.startswith(b"version https://git-lfs"):
            return ("is a Git LFS pointer, not the weights themselves; "
                    "run `git lfs pull` in its repository")
        if start.lstrip().startswith(b"<"):
            return ("is a web page (HTML), not weights: the download met an error page or a login; "
                    + fetch_again(path))
        file.seek(8)
        header = file.read(min(int.from_bytes(start[:8], "little"), size))
    expected = _length(start[:8], header)
    if expected is not None and expected > size:
        return f"is cut short, {size} bytes of at least {expected}; {fetch_again(path)}"
    return f"is not a safetensors file ({error}); {fetch_again(path)}"


def _length(prefix: bytes, header: bytes) -> int | None:
    """Return the length in bytes that a safetensors header promises; None if it is no such header.

    The format: eight bytes, the length of the header; the header, a JSON object that says where
    each tensor is; the data. A header that is itself cut short promises at least its own length.
    """
    promised = int.from_bytes(prefix, "little")
    if len(prefix) == 8 and len(header) < promised:
        return 8 + promised if header.startswith(b'{"') else None
    try:
        tensors = parse_json(header)
        ends = [t["data_offsets"][1] for name, t in tensors.items() if name != "__metadata__"]
        return 8 + promised + max(ends)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None  # JSON, but not of this kind
