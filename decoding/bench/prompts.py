"""Prompts of different kinds: how well a draft guesses depends on what is written.

A file of prompts is UTF-8 text. A line `=== kind` begins a prompt, which goes on to the next such
line and is used whole, but for line breaks at its ends. A file without such a line is one prompt,
whose kind is the file's name. Imports no torch.
"""
import re
from pathlib import Path

from weights.files import MIB, read_bytes, to_text
from weights.registry import BUNDLED

MOST = 64 * MIB  # a context of a million tokens, from a dozen prompts
DEFAULT = Path(__file__).with_name("prompts.txt")


def default_prompts(target: str) -> dict[str, str]:
    """Return the text of each kind, without code where the target has never seen any."""
    prompts = read_prompts(DEFAULT)
    if target in BUNDLED:
        del prompts["code"]
    return prompts


def read_prompts(path: str | Path) -> dict[str, str]:
    """Return the text of each kind in a file.

    Raises ValueError if it cannot be read, or a prompt is empty, or there is none.
    """
    what = f"the prompts {path}"
    contents = read_bytes(path, what, MOST, "which fit into no context")
    text = re.sub(r"\r\n?", "\n", to_text(contents, what))
    before, *parts = re.split(r"^=== *(.*?) *$", text, flags=re.MULTILINE)
    if not parts:
        parts, before = [Path(path).stem, before], ""
    if before.strip():
        raise ValueError(f"{path} has text before its first `=== kind` line")
    kinds, texts = parts[::2], [part.strip("\n") for part in parts[1::2]]
    for kind, prompt in zip(kinds, texts):
        if not kind or kinds.count(kind) > 1:
            raise ValueError(f"each prompt of {path} needs a kind of its own, and {kind!r} is none")
        if not prompt.strip():
            raise ValueError(f"{path} has no text for the prompt {kind!r}; "
                             "give at least one prompt")
    return dict(zip(kinds, texts))
