"""The tensors of a safetensors file, one at a time.

The safetensors library opens the file and checks it. The tensors are then read here from the file
itself, opened once for all of them: opening it anew for each would be slow on a network drive.
"""
import mmap
from io import BufferedReader
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from weights.diagnose import what_is_wrong
from weights.errors import WeightsError
from weights.files import check_path, parse_json, reading

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def open_weights(path: Path) -> safe_open:
    """Open the file with safetensors, which checks its header against its length.

    Raises WeightsError, with what to do, if it is missing or not such a file.
    """
    check_path(path)
    with reading(path):
        if not path.is_file():
            raise WeightsError(f"{path.parent} has no {path.name}")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        with reading(path):  # safetensors says of what it may not read that it is not there
            path.open("rb").close()
        raise WeightsError(f"{path} {what_is_wrong(path, error)}") from error


class TensorFile:
    """A file that `open_weights` has checked, open for as long as the block lasts."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.entries = read_header(self.file)

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def read(self, key: str) -> Tensor:
        """Return one tensor as it is stored. Its memory is a map of the file: copy it to keep it.

        Each tensor has a map of its own, which is closed with it and gives its pages back to the
        system. With one map for all, the process would end up holding both the file and the model.
        """
        entry = self.entries[key]
        start, end = entry["bytes"]
        before = start % mmap.ALLOCATIONGRANULARITY  # where maps can begin
        pages = mmap.mmap(self.file.fileno(), end - start + before, offset=start - before,
                          access=mmap.ACCESS_COPY)  # PyTorch warns of memory that is read-only
        dtype = FLOATS[entry["dtype"]]
        count = (end - start) // dtype.itemsize
        tensor = torch.frombuffer(pages, dtype=dtype, count=count, offset=before)
        return tensor.view(entry["shape"])


def read_header(file: BufferedReader) -> dict[str, dict]:
    """Return, by key, each tensor's "dtype" and "shape", and its "bytes": where in the file it is.

    The format: eight bytes, the length of the header; the header, a JSON object; the data.
    """
    size = int.from_bytes(file.read(8), "little")
    entries = parse_json(file.read(size))
    entries.pop("__metadata__", None)
    for entry in entries.values():
        entry["bytes"] = [8 + size + offset for offset in entry["data_offsets"]]
    return entries
