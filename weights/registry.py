"""What a name means: the known names, where their files are, which draft goes with which target.

Imports no torch.
"""
import os
import re
from dataclasses import dataclass
from pathlib import Path

from weights.errors import WeightsError
from weights.files import reading


@dataclass(frozen=True)
class Repository:
    """A model repository of the Hugging Face hub, at a commit or a branch."""

    id: str  # "owner/name"
    revision: str = "main"


WEIGHTS = "model.safetensors"
BUNDLED = {name: Path(__file__).parent / "tales" / name for name in ("tales-large", "tales-small")}
# OpenAI's weights; the commits are pinned, so that every run reads the same bytes.
OFFICIAL = {name: Repository(f"openai-community/{name}", commit) for name, commit in {
    "gpt2": "607a30d783dfa663caf39e06633721c8d4cfcd7e",
    "gpt2-medium": "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
    "gpt2-large": "32b71b12589c2f8d625668d2335a01cac3249519",
    "gpt2-xl": "15ea56dee5df4983c59b2538573817e1667135e2",
}.items()}
# Of the weights, which are most of what is downloaded.
OFFICIAL_BYTES = {"gpt2": 548_105_171, "gpt2-medium": 1_519_984_962, "gpt2-large": 3_247_159_078,
                  "gpt2-xl": 6_431_829_964}
KNOWN_NAMES = [*BUNDLED, *OFFICIAL]
DEFAULT_TARGET = "tales-large"
DRAFT_OF = {"tales-large": "tales-small",
            "gpt2-medium": "gpt2", "gpt2-large": "gpt2", "gpt2-xl": "gpt2"}


def resolve(name_or_path: str | os.PathLike) -> Path | Repository:
    """Return the folder or the repository that a name stands for, read in this order:

    1. a known name, even if a folder of that name lies in the working directory;
    2. a path object, a value that starts with `.` or `/`, or one with a separator that names a
    folder;
    3. `owner/name`, a repository of the hub (whether it exists shows when its files are fetched).

    Raises WeightsError for anything else, and for a path where there is no folder.
    """
    if isinstance(name_or_path, os.PathLike):
        return _existing_folder(Path(name_or_path))
    name = name_or_path
    if name in BUNDLED:
        return BUNDLED[name]
    if name in OFFICIAL:
        return OFFICIAL[name]
    with reading(name):
        if name.startswith((".", "/")) or (_has_separator(name) and Path(name).is_dir()):
            return _existing_folder(Path(name))
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return Repository(name)
    if _has_separator(name):
        raise WeightsError(f"there is no folder {name}")
    raise WeightsError(f"unknown model {name!r}; known are {', '.join(KNOWN_NAMES)}; "
                       "for a folder write ./name, for a repository of the hub owner/name")


def _has_separator(name: str) -> bool:
    return "/" in name or os.sep in name


def _existing_folder(path: Path) -> Path:
    with reading(path):
        if path.is_file():
            raise WeightsError(f"{path} is a file; name the folder that holds config.json and "
                               "model.safetensors")
        if not path.is_dir():
            raise WeightsError(f"there is no folder {path}")
    return path
