"""Builds llama.cpp, and the driver that runs it round by round, from source.

The source is that of the package llama-cpp-python, which holds a copy of llama.cpp; the package
itself is not installed. Imports no torch.
"""
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from weights.output import cache_folder

VERSION = "0.3.36"  # of llama-cpp-python
SOURCE = Path(__file__).parent / "llama_cpp_driver"
OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "BUILD_SHARED_LIBS": "OFF",
           "GGML_NATIVE": "ON"}  # for this processor alone: all that it can do


class PeerError(Exception):
    """llama.cpp could not be built, or its driver has ended."""


def build_folder() -> Path:
    """Return where downloads and builds are kept. It is safe to delete."""
    return cache_folder() / f"llama-cpp-python-{VERSION}"


def find_driver() -> Path:
    """Return the path of the driver. Raises PeerError if it is not built, or of another source."""
    copy = build_folder() / "driver"
    path = build_folder() / "build" / ("driver.exe" if sys.platform == "win32" else "driver")
    if not path.exists() or any(differs(file, copy / file.name)
                                or (copy / file.name).stat().st_mtime > path.stat().st_mtime
                                for file in SOURCE.iterdir()):
        raise PeerError("llama.cpp is not built yet; --build does it, in minutes")
    return path


def copy_driver(folder: Path) -> Path:
    """Copy the driver's source to where it is built, as far as it has changed; return the copy.

    So that a build does not depend on the place of this checkout.
    """
    copy = folder / "driver"
    copy.mkdir(exist_ok=True)
    for file in SOURCE.iterdir():
        if differs(file, copy / file.name):
            shutil.copyfile(file, copy / file.name)
    return copy


def differs(file: Path, copy: Path) -> bool:
    return not copy.exists() or file.read_bytes() != copy.read_bytes()


def build() -> None:
    """Download the source, unless it is there, and compile it: minutes. Progress goes to stderr.

    What is done already is not done again. Raises PeerError if a tool is missing or a step fails.
    """
    ninja = shutil.which("ninja")
    for tool in ("cmake", "c++", "ninja" if ninja else "make"):
        if shutil.which(tool) is None:
            raise PeerError("building llama.cpp takes cmake, ninja or make, and a C++ compiler; "
                            f"there is no {tool} here")
    folder = build_folder()
    folder.mkdir(parents=True, exist_ok=True)
    llama_cpp = fetch(folder)
    out = folder / "build"
    step("cmake", "-S", copy_driver(folder), "-B", out,
         "-G", "Ninja" if ninja else "Unix Makefiles", f"-DLLAMA_CPP={llama_cpp}",
         *(f"-D{name}={value}" for name, value in OPTIONS.items()))
    step("cmake", "--build", out, "--target", "driver", "--parallel", str(os.cpu_count() or 1))


def fetch(folder: Path) -> Path:
    """Return the folder of llama.cpp's source, downloaded and unpacked if need be."""
    source = folder / f"llama_cpp_python-{VERSION}"
    if not source.exists():
        step(sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary",
             "llama-cpp-python", "--dest", folder, f"llama-cpp-python=={VERSION}")
        unpacked = folder / "unpacked"
        with tarfile.open(f"{source}.tar.gz") as archive:
            archive.extractall(unpacked, filter="data")
        (unpacked / source.name).rename(source)  # now it is whole
    return source / "vendor" / "llama.cpp"


def step(*command: str | Path) -> None:
    """Run a command, with its output on stderr. Raises PeerError if it fails."""
    words = [str(word) for word in command]
    print("$", *words, file=sys.stderr, flush=True)
    code = subprocess.run(words, stdout=sys.stderr, check=False).returncode
    if code != 0:
        raise PeerError(f"`{' '.join(words[:4])} ...` has failed with exit code {code}")
