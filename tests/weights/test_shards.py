"""Weights in several files, and under the several names that official files have for them."""
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from weights import WeightsError, load_fast, load_model
from weights.fast import pick_dtype
from weights.registry import BUNDLED

INDEX = "model.safetensors.index.json"


def write_shards(folder, weights, n=3, index=None):
    """Write the weights, dealt out to n files, and an index that names them."""
    names = sorted(weights)
    files = [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)]
    for i, file in enumerate(files):
        save_file({name: weights[name].contiguous() for name in names[i::n]}, folder / file)
    places = {name: files[i] for i in range(n) for name in names[i::n]}
    (folder / INDEX).write_text(index or json.dumps({"weight_map": places}))
    return files


@pytest.fixture
def folder(tmp_path):
    """A model folder whose weights are in three shards."""
    folder = shutil.copytree(BUNDLED["tales-small"], tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    write_shards(folder, weights)
    return folder


def same_as_bundled(model):
    want = load_model("tales-small").state_dict()
    found = model.state_dict()
    return found.keys() == want.keys() and all(torch.equal(found[k], want[k]) for k in want)


@pytest.mark.parametrize("load", [load_model, load_fast])
def test_shards_are_one_model(folder, load):
    assert same_as_bundled(load(folder))
    assert pick_dtype("auto", folder, "cuda") == torch.float16


def test_where_a_tensor_is_the_files_say_and_not_the_index(folder):
    index = json.loads((folder / INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    (folder / INDEX).write_text(json.dumps({"weight_map": {"x": files[2], "y": files[0],
                                                           "z": files[1]}}))
    assert same_as_bundled(load_model(folder))


def refusal(folder):
    for load in (load_model, load_fast):
        with pytest.raises(WeightsError) as error:
            load(folder)
    message = str(error.value)
    assert str(folder) in message and "\n" not in message
    return message


@pytest.mark.parametrize("index", [
    "{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', '{"weight_map": {"a": 1}}',
    '{"weight_map": {"a": ["b"]}}', '{"weight_map": {"a": "../model.safetensors"}}',
    '{"weight_map": {"a": "/etc/passwd"}}', '{"weight_map": {"a": "C:\\\\x"}}',
    '{"weight_map": {"a": ""}}', "[" * 100_000])
def test_what_is_no_index(folder, index):
    (folder / INDEX).write_text(index)
    assert f"{INDEX} is not an index of shards" in refusal(folder)


def test_a_shard_that_is_missing_cut_short_or_there_twice(folder):
    second, third = (folder / f"model-0000{i}-of-00003.safetensors" for i in (2, 3))
    data = third.read_bytes()
    third.write_bytes(data[:-1])
    assert "model-00003-of-00003.safetensors is cut short" in refusal(folder)
    third.unlink()
    assert refusal(folder).endswith("has no model-00003-of-00003.safetensors")
    shutil.copy(second, third)
    name = sorted(load_file(second))[0]
    assert f"holds {name} twice: as {name}, and as {name} in {second.name}" in refusal(folder)


def test_a_tensor_that_no_shard_has(folder):
    path = folder / "model-00001-of-00003.safetensors"
    weights = load_file(path)
    name = sorted(weights)[2]
    save_file({key: weight for key, weight in weights.items() if key != name}, path)
    assert f"{folder} has no tensor {name}" in refusal(folder)


def test_a_repeated_head_may_be_in_another_shard(folder):
    weights = {name: weight.clone() for path in folder.glob("*.safetensors")
               for name, weight in load_file(path).items()}
    for head, words in [(weights["wte.weight"].clone(), None),
                        (weights["wte.weight"] + 1, "lm_head.weight differs from wte.weight"),
                        (weights["wte.weight"][1:], "lm_head.weight differs from wte.weight")]:
        write_shards(folder, {**weights, "lm_head.weight": head})
        if words is None:
            assert same_as_bundled(load_model(folder))
        else:
            assert words in refusal(folder)


def test_a_tied_matrix_may_have_the_name_of_the_head_alone(folder):
    weights = {name: weight.clone() for path in folder.glob("*.safetensors")
               for name, weight in load_file(path).items()}
    weights["lm_head.weight"] = weights.pop("wte.weight")
    write_shards(folder, {f"transformer.{name}" if name != "lm_head.weight" else name: weight
                          for name, weight in weights.items()})
    assert same_as_bundled(load_model(folder))


def test_a_whole_file_comes_before_an_index(folder):
    shutil.copy(BUNDLED["tales-small"] / "model.safetensors", folder)
    (folder / INDEX).write_text("{")
    assert same_as_bundled(load_model(folder))


@pytest.mark.parametrize("of_masks", [torch.uint8, torch.bool, torch.float32])
def test_auto_is_the_format_of_the_weights_whatever_the_masks_have(tmp_path, of_masks):
    folder = shutil.copytree(BUNDLED["tales-small"], tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights = {name: weight.bfloat16() for name, weight in weights.items()}
    weights = {name: weight.float() if weight.ndim == 1 else weight  # norms may be stored wider
               for name, weight in weights.items()}
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 64, 64).to(of_masks) for i in range(4)}
    save_file({**masks, **weights}, folder / "model.safetensors")
    assert pick_dtype("auto", folder, "cuda") == torch.bfloat16
