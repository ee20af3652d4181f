"""What a name means: the known names, where their files are, which draft goes with which target.

Imports no torch.
"""
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from weights.errors import WeightsError
from weights.files import reading


@dataclass(frozen=True)
class Repository:
    """A model repository of the Hugging Face hub, at a commit or a branch."""

    id: str  # "owner/name"
    revision: str = "main"


WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # in its place where the weights are in several files
BIN, BIN_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"  # see `weights.convert`
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


class Published(NamedTuple):
    """A repository that is known to be of a family in `model/`."""

    megabytes: int  # of the weights; where no listing was seen, counted from the shape
    revision: str = "main"  # a commit that is known to hold what is read here
    how: str = "to download"  # how one comes by it


CONVERT, ASK = "to convert", "to ask for"  # by `weights.convert`; with a licence, on its page
PUBLISHED = {
    "EleutherAI/pythia-70m-deduped": Published(166, "e93a9faa9c77e5d09219f6c868bfc7a1bd65593c"),
    "EleutherAI/pythia-160m-deduped": Published(375, "582159a2dfe3e712a8d47ae83dec95ae3bde8e7e"),
    "EleutherAI/pythia-410m-deduped": Published(911, "c4fc8d586d62df497f1f9b69d66d3ca419992d3e"),
    "EleutherAI/pythia-1.4b-deduped": Published(2930),
    "EleutherAI/pythia-2.8b-deduped": Published(5685),
    "meta-llama/Llama-3.2-1B": Published(2472, "4e20de362430cd3b72f300e6b0f18e50e7166e08", ASK),
    "meta-llama/Llama-3.2-3B": Published(6425, "13afe5124825b4f3751f836b40dafda64c1ed062", ASK),
    "facebook/opt-125m": Published(250, "27dcfa74d334bc871f3234de431e71c6eeba5dd6", CONVERT),
    "facebook/opt-350m": Published(662, "08ab08cc4b72ff5593870b5d527cf4230323703c", CONVERT),
    "EleutherAI/gpt-neo-125m": Published(526, "21def0189f5705e2521767faed922f1f15e7d7db"),
    "EleutherAI/gpt-neo-1.3B": Published(5363),
    "mia-llm/gpt-neo-125m-xsum-roya": Published(526),
    "mia-llm/gpt-neo-1.3B-xsum-roya": Published(5363),
    "deepseek-ai/deepseek-coder-1.3b-base": Published(
        2693, "c919139c3a9b4070729c8b2cca4847ab29ca8d94"),
    "deepseek-ai/deepseek-coder-6.7b-base": Published(13481),
}
KNOWN_NAMES = [*BUNDLED, *OFFICIAL, *PUBLISHED]
DEFAULT_TARGET = "tales-large"
DRAFT_OF = {
    "tales-large": "tales-small",
    "gpt2-medium": "gpt2", "gpt2-large": "gpt2", "gpt2-xl": "gpt2",
    "EleutherAI/pythia-160m-deduped": "EleutherAI/pythia-70m-deduped",
    "EleutherAI/pythia-410m-deduped": "EleutherAI/pythia-70m-deduped",
    "EleutherAI/pythia-1.4b-deduped": "EleutherAI/pythia-70m-deduped",
    "EleutherAI/pythia-2.8b-deduped": "EleutherAI/pythia-70m-deduped",
    "meta-llama/Llama-3.2-3B": "meta-llama/Llama-3.2-1B",
    "facebook/opt-350m": "facebook/opt-125m",
    "EleutherAI/gpt-neo-1.3B": "EleutherAI/gpt-neo-125m",
    "mia-llm/gpt-neo-1.3B-xsum-roya": "mia-llm/gpt-neo-125m-xsum-roya",
    "deepseek-ai/deepseek-coder-6.7b-base": "deepseek-ai/deepseek-coder-1.3b-base",
}


def resolve(name_or_path: str | os.PathLike) -> Path | Repository:
    """Return the folder or the repository that a name stands for, read in this order:

    1. a known name, even if a folder of that name lies in the working directory;
    2. a path object, a value that starts with `.` or `/`, or one with a separator that names a
    folder;
    3. `owner/name` or `owner/name@revision`, a repository of the hub at a commit, branch or tag, or
    at refs/pr/N (whether it exists shows when its files are fetched).

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
    if repository := re.fullmatch(r"([\w.-]+/[\w.-]+)(?:@([\w.-]+(?:/[\w.-]+)*))?", name):
        id, revision = repository.groups()
        pinned = PUBLISHED[id].revision if id in PUBLISHED else "main"
        return Repository(id, revision or pinned)
    if _has_separator(name):
        raise WeightsError(f"there is no folder {name}")
    raise WeightsError(f"unknown model {name!r}; known are {', '.join([*BUNDLED, *OFFICIAL])}; "
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
