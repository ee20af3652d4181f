"""config.json: the family and the sizes of a model, and how its texts begin and end."""
import os
from pathlib import Path
from typing import NamedTuple

from weights.families import FAMILIES, Fields
from weights.hub import fetch
from weights.registry import OFFICIAL, Repository, resolve
from weights.values import Values, read_values

OFFICIAL_N_CTX = 1024


class Ends(NamedTuple):
    """The ids that stand around a text."""

    first: tuple[int, ...]  # what the model expects every text to begin with: BOS, or nothing
    last: tuple[int, ...]  # each of them ends a text; the first is the usual one


def read_config(path: Path) -> tuple[str, Fields]:
    """Read a config.json: the model_type, and the fields of this family's configuration.

    The fields have their names in `model/`, but for the vocabulary: n_rows is how many rows the
    embedding has, which may be more than tokens. Raises WeightsError if there is no such file, it
    is not JSON, a size is missing, or the model is a variant that `model/` does not compute.
    """
    values = read_values(path)
    family = family_of(values)
    values.must("quantization_config", None)
    return family, FAMILIES[family].sizes(values)


def read_ends(path: Path) -> Ends:
    """Read how texts begin and end, from bos_token_id and eos_token_id. Raises as `read_config`."""
    values = read_values(path)
    last = values.get("eos_token_id")
    last = last if isinstance(last, list) else [last]
    first = [values.get("bos_token_id")] if FAMILIES[family_of(values)].starts_with_bos else []
    for token in (*first, *last):
        if type(token) is not int or token < 0:
            raise values.refusal("bos_token_id and eos_token_id must be ids of tokens, "
                                 f"not {token!r}")
    if not last:
        raise values.refusal("eos_token_id is an empty list")
    return Ends(tuple(first), tuple(last))


def family_of(values: Values) -> str:
    """Return the model_type. Raises WeightsError for one that cannot be loaded."""
    family = values.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise values.refusal(f"model_type is {family!r}; only "
                             f"{', '.join(map(repr, FAMILIES))} can be loaded")
    return family


def read_context(name_or_path: str | os.PathLike) -> int:
    """Return the most tokens that a model reads, by its config.json; no weights are touched.

    Raises WeightsError and DownloadError as `load_tokenizer` does.
    """
    source = resolve(name_or_path)
    if name_or_path in OFFICIAL:
        return OFFICIAL_N_CTX
    if isinstance(source, Repository):
        path = fetch(source, "config.json")
    else:
        path = source / "config.json"
    return read_config(path)[1]["n_ctx"]
