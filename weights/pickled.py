"""pytorch_model.bin: read without running anything, and written as safetensors.

Such a file is a pickle, a program that builds objects, so reading one from a stranger can run
anything. It is read here with PyTorch's restricted reader, which builds tensors and refuses all
else. `python -m weights.convert` calls this; nothing else in this project reads a pickle of others.
"""
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from weights.config import read_config
from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.files import reading
from weights.hub import find_file, first_of
from weights.load import read_index
from weights.output import replacing
from weights.registry import BIN, BIN_INDEX, INDEX, Repository
from weights.terminal import tell

# What `load_tokenizer` may want; not every repository has each.
VOCABULARIES = ("tokenizer.json", "vocab.json", "merges.txt")


def convert(source: Path | Repository, out: Path) -> None:
    """Write the weights of a folder or repository, its config.json and vocabulary, into a folder.

    The weights come last: without them, what is there is no model. Raises WeightsError if there is
    no pytorch_model.bin, or more than tensors in it.
    """
    config = find_file(source, "config.json")
    read_config(config)  # a model that cannot be loaded is not worth a download
    if isinstance(source, Repository):  # the branch may move between two downloads
        source = Repository(source.id, config.parent.name)
    found = first_of(source, BIN, BIN_INDEX)
    if found is None:
        raise WeightsError(f"there is no {BIN} beside {config}")
    files = [found] if found == BIN else read_index(find_file(source, BIN_INDEX))
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", *VOCABULARIES):
        if first_of(source, name):
            copy(find_file(source, name), out)
    if isinstance(source, Path):
        for path in source.glob("*.tiktoken"):
            copy(path, out)
    shards: dict[str, str] = {}
    for file in files:
        shard = file.removeprefix("pytorch_").removesuffix(".bin") + ".safetensors"
        tensors = read_pickle(find_file(source, file))
        tell(f"writing {out / shard}, {sum(t.nbytes for t in tensors.values()) / 1e6:,.0f} MB")
        with replacing(out / shard) as unfinished:
            save_file(tensors, unfinished, metadata={"format": "pt"})
        shards |= dict.fromkeys(tensors, shard)
    if found == BIN_INDEX:
        with replacing(out / INDEX) as unfinished:
            unfinished.write_text(json.dumps({"metadata": {}, "weight_map": shards}, indent=1))


def copy(path: Path, out: Path) -> None:
    """Copy a file into a folder, unless it lies there."""
    if path.resolve() != (out / path.name).resolve():
        shutil.copyfile(path, out / path.name)


def read_pickle(path: Path) -> dict[str, Tensor]:
    """Read the tensors in a .bin file, by name, with the restricted reader.

    They share no memory, as safetensors wants it. The file is a map where its form allows it, so
    that a large one need not fit into memory. Raises WeightsError if it is damaged, or more than a
    table of tensors.
    """
    with reading(path):
        mapped = zipfile.is_zipfile(path)  # files from before PyTorch 1.6 are no archives
    try:
        table = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(f"{path} is damaged, or holds more than numbers, which is not read "
                           f"({str(error).splitlines()[0]}); {fetch_again(path)}") from error
    except Exception as error:  # a damaged file can lead to any
        raise WeightsError(f"{path} cannot be read as weights ({error}); "
                           f"{fetch_again(path)}") from error
    if not isinstance(table, dict) or not all(
            isinstance(name, str) and isinstance(tensor, Tensor) and not tensor.is_quantized
            and tensor.layout == torch.strided for name, tensor in table.items()):
        raise WeightsError(f"{path} is not a table of tensors")
    seen, tensors = set[int](), {}
    for name, tensor in table.items():
        again = tensor.data_ptr() in seen  # a tied head is the embedding once more
        tensors[name] = tensor.detach().clone() if again else tensor.detach().contiguous()
        seen.add(tensor.data_ptr())
    return tensors
