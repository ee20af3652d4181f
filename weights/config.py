"""config.json: the five sizes of a GPT-2, and whether `model/` computes just this kind of GPT-2."""
import os
from pathlib import Path

from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.files import parse_json, reading
from weights.hub import fetch
from weights.registry import OFFICIAL, Repository, resolve

# What `model/` computes. A config that leaves one of these out means the first value, as it does in
# the reference implementation; one that says something else would load well and compute something
# wrong.
GPT2_FORWARD: dict[str, list] = {
    "activation_function": ["gelu_new", "gelu_pytorch_tanh"],  # two names of the tanh form
    "layer_norm_epsilon": [1e-5],
    "scale_attn_weights": [True],
    "scale_attn_by_inverse_layer_idx": [False],
    "reorder_and_upcast_attn": [False],
    "add_cross_attention": [False],
    "tie_word_embeddings": [True],
}
OFFICIAL_N_CTX = 1024
MOST = 10**7  # of anything: the product of two sizes is still a size that PyTorch can count


def read_config(path: Path) -> dict[str, int]:
    """Read the sizes in a config.json, under the names of GPT2Config.

    Its vocab_size is called n_rows here, the rows of the embedding, which may be more than tokens.
    Raises WeightsError if there is no such file, it is not JSON, a size is missing, or the model is
    not a plain GPT-2.
    """
    values = _read_json(path)
    if values.get("model_type") != "gpt2":
        raise WeightsError(f"{path}: model_type is {values.get('model_type')!r}; "
                           "only 'gpt2' can be loaded")
    n_embd = _size(values, "n_embd", path)
    for key, allowed in {**GPT2_FORWARD, "n_inner": [None, 4 * n_embd]}.items():
        if values.get(key, allowed[0]) not in allowed:
            raise WeightsError(f"{path}: {key} is {values[key]!r}, "
                               f"but GPT-2 has {' or '.join(map(repr, allowed))}")
    return {
        "n_layer": _size(values, "n_layer", path),
        "n_head": _size(values, "n_head", path),
        "n_embd": n_embd,
        "n_rows": _size(values, "vocab_size", path),
        "n_ctx": _size(values, "n_ctx" if "n_positions" not in values else "n_positions", path),
    }


def read_context(name_or_path: str | os.PathLike) -> int:
    """Return the most tokens that a model reads, by its config.json; no weights are touched.

    Raises WeightsError and DownloadError as `load_tokenizer` does.
    """
    source = resolve(name_or_path)
    if name_or_path in OFFICIAL:
        return OFFICIAL_N_CTX
    if isinstance(source, Repository):
        return read_config(fetch(source, "config.json"))["n_ctx"]
    return read_config(source / "config.json")["n_ctx"]


def _read_json(path: Path) -> dict:
    with reading(path):
        try:
            contents = path.read_bytes()
        except FileNotFoundError:
            raise WeightsError(f"{path.parent} has no config.json; "
                               "it must stand beside model.safetensors") from None
    try:
        values = parse_json(contents)
    except ValueError as error:
        raise WeightsError(f"{path} is not JSON ({error}); {fetch_again(path)}") from error
    if not isinstance(values, dict):
        raise WeightsError(f"{path} is not a JSON object; {fetch_again(path)}")
    return values


def _size(values: dict, key: str, path: Path) -> int:
    value = values.get(key)
    if type(value) is not int or not 1 <= value <= MOST:
        raise WeightsError(f"{path}: {key} must be a whole number from 1 to {MOST}, "
                           f"not {value!r}")
    return value
