"""Files that a user names, read once; what is wrong with one is said in one line, here."""
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from os import PathLike
from typing import Any

from weights.errors import WeightsError

MIB = 2**20


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Raise WeightsError, with the reason, where the system does not let the block read.

    what: the file or folder, as the user knows it.
    """
    try:
        yield
    except OSError as error:
        raise WeightsError(f"cannot read {what}: {error.strerror or error}") from error


def read_bytes(file: str | PathLike, what: str, most: int, why: str) -> bytes:
    """Return what is in a file, a pipe, or, for -, stdin.

    most: the bytes that can be of use, so that a file without an end, as /dev/zero, is refused.
    why: what more of them would be.
    Raises WeightsError for more of them, and if there is no reading the file.
    """
    with (reading(what),
          nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as stream):
        data = b"".join(islice(iter(partial(stream.read, MIB), b""), most // MIB + 1))
    if len(data) > most:
        raise WeightsError(f"{what} has more than {most:,} bytes, {why}; shorten it")
    return data


def check_path(path: PathLike) -> None:
    """Raise WeightsError for a path that is not UTF-8: safetensors opens no such file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise WeightsError(f"the path {path} is not UTF-8; rename it") from None


def to_text(data: bytes, what: str) -> str:
    """Return a UTF-8 text, without the mark that some editors begin with.

    Raises WeightsError if it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WeightsError(f"{what} is not UTF-8 ({error}); convert it to UTF-8") from error


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text says.

    Raises ValueError, with the reason, if it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
