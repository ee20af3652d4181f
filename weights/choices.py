"""Which layouts were chosen on this machine: a small JSON file where the system keeps caches.

It saves a second when a model is loaded again, and the same weights then give the same logits. It
is safe to delete. Where it cannot be read or written, or is damaged, choices are just made again.
"""
import json
import os
from contextlib import suppress
from pathlib import Path

import torch

from weights.output import cache_folder
from weights.processor import cpu_name

FILE = "layouts.json"


class Choices(dict[str, str]):
    """What was chosen on this machine, by what it was chosen for; a new choice goes to the file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = cache_folder() / FILE if path is None else path
        self.machine = (f"{cpu_name()}, {torch.backends.cpu.get_cpu_capability()}, "
                        f"torch {torch.__version__}, {torch.get_num_threads()} threads")
        super().__init__(read(self.path).get(self.machine, {}))

    def __setitem__(self, key: str, choice: str) -> None:
        super().__setitem__(key, choice)
        known = read(self.path)  # again: another program may have added something
        known.setdefault(self.machine, {})[key] = choice
        write(self.path, json.dumps(known, indent=1) + "\n")


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return what is in the file, {machine: {what for: choice}}; nothing if it is no good."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and all(map(holds_choices, found.values())):
            return found
    return {}


def holds_choices(part: object) -> bool:
    """Return whether this can be what was chosen on a machine: {what for: choice}."""
    return isinstance(part, dict) and all(isinstance(choice, str) for choice in part.values())


def write(path: Path, text: str) -> None:
    """Replace the file, whole or not at all, if that is possible."""
    own = path.with_name(f"{path.name}.{os.getpid()}")  # other programs write theirs
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            own.write_text(text, encoding="utf-8")
            os.replace(own, path)
        finally:
            own.unlink(missing_ok=True)
