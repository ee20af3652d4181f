"""What a program writes: one run at a time in a folder, and each file replaced whole."""
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

LOCK = ".lock"
NUMBERS = count()  # of files that are being written

# The system's own locks end with the process, however it ends, so none outlives its run.
if sys.platform == "win32":
    import msvcrt

    def lock(file: BinaryIO) -> None:
        """Lock an open file. Raises BlockingIOError or PermissionError if another run has it."""
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock(file: BinaryIO) -> None:
        """Lock an open file. Raises BlockingIOError or PermissionError if another run has it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def cache_folder() -> Path:
    """Return the folder for this project's files in the place where the system keeps caches."""
    home = Path(os.path.expanduser("~"))
    usual, variable = {"darwin": (home / "Library" / "Caches", ""),
                       "win32": (home / "AppData" / "Local", "LOCALAPPDATA"),
                       }.get(sys.platform, (home / ".cache", "XDG_CACHE_HOME"))
    return Path(os.environ.get(variable) or usual) / "speculative"


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Make the folder if need be, and keep other runs out of it for as long as the block lasts.

    Raises ValueError if it cannot be written, or another run is writing into it. Of the folders
    that were made here, those that are empty at the end are removed.
    """
    with ExitStack() as stack:
        try:
            make_folder(folder, stack)
            take_lock(folder, stack)
        except OSError as error:
            reason = f"cannot write into {folder}: {error.strerror or error}"
            raise ValueError(f"{reason}; choose another --out") from error
        yield


def make_folder(folder: Path, stack: ExitStack) -> None:
    """Make a folder, and those above it. The ones still empty at the stack's end are removed."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        stack.callback(remove_if_empty, path)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder, unless there is something in it."""
    with suppress(OSError):  # it is not empty
        folder.rmdir()


def take_lock(folder: Path, stack: ExitStack) -> None:
    """Hold the folder's lock until the stack's end. Raises ValueError if another run has it."""
    path = folder / LOCK
    while True:
        file = path.open("ab")
        stack.callback(file.close)
        try:
            lock(file)
        except (BlockingIOError, PermissionError):
            raise ValueError(f"another run is writing into {folder}; wait for its end, "
                             "or choose another --out") from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break  # else its last holder has just removed the file that was opened here
    stack.callback(release_lock, file, path)


def release_lock(file: BinaryIO, path: Path) -> None:
    """Give the lock back, and remove its file: while it is held, where the system allows it."""
    if sys.platform == "win32":
        file.close()
    with suppress(OSError):
        path.unlink()
    file.close()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield where to write a new file that takes the place of `path` once the block is done.

    At every moment the old file or the new one is there, whole. Where the block fails, on a full
    disk perhaps, the old one stays and the new one goes.
    """
    unfinished = path.with_name(f".{os.getpid()}-{next(NUMBERS)}.new")  # nobody else's
    try:
        unfinished.touch()
        mode = unfinished.stat().st_mode  # what the user's umask allows
        yield unfinished
        unfinished.chmod(mode)  # safetensors' files could be read by their owner only
        os.replace(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            os.truncate(unfinished, 0)  # whoever failed to write it may still hold it, and its room
            unfinished.unlink()


def check_writable(path: Path) -> None:
    """Raise ValueError if there is no writing to this file, or no making it.

    A device or a pipe is not opened, which might wait for a reader.
    """
    try:
        if path.is_file() or path.is_dir():  # a folder cannot be opened
            path.open("ab").close()
        elif not path.exists():
            TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; into a device or a pipe, such as /dev/stdout, directly."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    with replacing(path.resolve()) as file:  # where `path` is a link, it goes on leading there
        file.write_text(text, encoding="utf-8", newline="\n")
