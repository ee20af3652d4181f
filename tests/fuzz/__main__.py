"""`python -m tests.fuzz`: odd command lines, damaged files and random runs; a quarter of an hour.

A command is clean when it ends with code 0, or with 1 or 2 and one line that says why. A run is
clean when it writes what it should, counts right, and leaves no trace in global state.

Exit codes: 0 clean; 1 something was found.
"""
import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from tests.fuzz.calls import too_long
from tests.fuzz.files import damaged_files
from tests.fuzz.lines import odd_lines
from tests.fuzz.runs import random_runs

KINDS: dict[str, tuple[Callable[[random.Random, int], Iterator[str | None]], int]] = {
    "files": (damaged_files, 300), "lines": (odd_lines, 300), "runs": (random_runs, 1000)}


def main() -> int:
    """Return 0 if all was clean, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    for name, (_, default) in KINDS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options, home, found = parser.parse_args(), Path.cwd(), 0
    os.environ["HF_HUB_OFFLINE"] = "1"
    signal.signal(signal.SIGALRM, too_long)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # layouts that are chosen here
        (Path(folder) / "work").mkdir()
        os.chdir(Path(folder) / "work")
        for name, (fuzz, _) in KINDS.items():
            wrong = []
            for one in fuzz(random.Random(options.seed), getattr(options, name)):
                wrong += [one] if one is not None else []
            found += len(wrong)
            print(f"{getattr(options, name)} {name}: {len(wrong)} found", flush=True)
            print("\n".join(wrong), end="\n" * bool(wrong), flush=True)
        os.chdir(home)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
