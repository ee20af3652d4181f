"""The checkpoint of a training: a file from which it goes on if it is interrupted."""
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from weights.console import out_of_memory
from weights.output import replacing


def save_checkpoint(contents: dict, path: Path) -> None:
    """Write a checkpoint so that at every moment the old one or the new one is there, whole.

    Raises OSError if the disk does not take it.
    """
    with replacing(path) as unfinished:
        try:
            torch.save(contents, unfinished)
        except RuntimeError as error:  # torch's word for a write that failed; it does not say why
            if out_of_memory(error):
                raise
            raise OSError(f"{path} could not be written; is the disk full?") from error


def read_checkpoint(path: Path) -> dict:
    """Return what `save_checkpoint` wrote. Raises ValueError for a file that is anything else."""
    with expecting_a_checkpoint(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says much about files that are not its own
        return torch.load(path, map_location="cpu", weights_only=True)


@contextmanager
def expecting_a_checkpoint(path: Path) -> Iterator[None]:
    """Raise ValueError, which says that the file is no checkpoint, where the block fails."""
    try:
        yield
    except Exception as error:  # whatever another program's file leads to, in torch or here
        if isinstance(error, OSError) or out_of_memory(error):
            raise
        raise ValueError(f"{path} is no checkpoint of python -m weights.train, or it is damaged; "
                         "name another --out") from error
