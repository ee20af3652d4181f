"""`python -m weights.convert`: the same numbers as safetensors, and nothing is run to get them."""
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from decoding.bench.counting_gpt2 import write_checkpoint
from weights import WeightsError, load_model, load_tokenizer
from weights.check import main as check
from weights.continuations import CONTINUATIONS
from weights.convert import main as convert
from weights.registry import BUNDLED

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A model folder, and {name: tensor} of its weights, for a test to write as a .bin file."""
    folder = shutil.copytree(BUNDLED["tales-small"], tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    return folder, weights


def logits(folder):
    return load_model(folder)(torch.arange(60)[None])


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("head", [True, False])
def test_the_numbers_stay_the_same(folder, tmp_path, capsys, archive, head):
    source, weights = folder
    weights = {f"transformer.{name}": weight for name, weight in weights.items()}
    if head:  # the same memory under a second name, as tied heads are saved
        weights["lm_head.weight"] = weights["transformer.wte.weight"]
    weights["transformer.h.0.attn.bias"] = torch.ones(1, 1, 8, 8, dtype=torch.uint8).tril()
    torch.save(weights, source / "pytorch_model.bin", _use_new_zipfile_serialization=archive)
    assert zipfile.is_zipfile(source / "pytorch_model.bin") == archive
    out = tmp_path / "owner" / "name"
    assert convert([str(source), str(out)]) == 0
    assert capsys.readouterr().err.endswith(f"done; try python -m weights.check {out}\n")
    written = load_file(out / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], weight) and written[name].dtype == weight.dtype
               for name, weight in weights.items())
    assert torch.equal(logits(out), logits(BUNDLED["tales-small"]))
    assert load_tokenizer(out).name == load_tokenizer("tales-small").name
    assert check([str(out)]) == 0


def test_a_name_means_the_folder_that_was_made_under_it(folder, tmp_path, monkeypatch, capsys):
    """So that the names of a repository's partners, and known continuations, go on to hold."""
    source, weights = folder
    torch.save(weights, source / "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    assert convert(["./model", "facebook/opt-125m"]) == 0
    monkeypatch.setitem(CONTINUATIONS, "facebook/opt-125m", CONTINUATIONS["tales-small"])
    assert check(["facebook/opt-125m"]) == 0
    assert "pass: greedy decoding of [2508, 1357, 257, 580] was" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert check(["facebook/opt-125m"]) == 2
    assert "is not that model: it has a context of 1024 and" in capsys.readouterr().err


def test_shards(folder, tmp_path):
    source, weights = folder
    names = sorted(weights)
    shards = {f"pytorch_model-0000{i}-of-00003.bin": names[i - 1::3] for i in (1, 2, 3)}
    for shard, part in shards.items():
        torch.save({name: weights[name] for name in part}, source / shard)
    places = {name: shard for shard, part in shards.items() for name in part}
    index = source / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    out = tmp_path / "out"
    assert convert([str(source), str(out)]) == 0
    assert sorted(path.name for path in out.glob("model*")) == [
        *(f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)), "model.safetensors.index.json"]
    assert torch.equal(logits(out), logits(BUNDLED["tales-small"]))
    (source / "pytorch_model-00002-of-00003.bin").unlink()
    assert convert([str(source), str(tmp_path / "again")]) == 2
    assert not list((tmp_path / "again").glob("*index*"))  # the index comes last


class Runs:
    """What a pickle can do: run a program when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def refusal(capsys, *arguments, code=2):
    capsys.readouterr()
    assert convert([str(argument) for argument in arguments]) == code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("writing ")]
    assert out == "" and len(lines) == 1
    return err


@pytest.mark.parametrize("archive", [True, False])
def test_nothing_is_run(folder, tmp_path, capsys, archive):
    source, weights = folder
    torch.save({**weights, "x": Runs(tmp_path / "ran")}, source / "pytorch_model.bin",
               _use_new_zipfile_serialization=archive)
    assert "holds more than numbers, which is not read" in refusal(capsys, source, tmp_path / "o")
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "o").glob("*.safetensors"))
    torch.load(source / "pytorch_model.bin", weights_only=False)  # what it would have done
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("contents", [
    [torch.ones(2)], {"model": {"a": torch.ones(2)}}, {1: torch.ones(2)}, torch.ones(2),
    {"a": torch.ones(2).to_sparse()}])
def test_what_is_no_table_of_tensors(folder, tmp_path, capsys, contents):
    torch.save(contents, folder[0] / "pytorch_model.bin")
    assert "is not a table of tensors" in refusal(capsys, folder[0], tmp_path / "out")


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:1000], lambda data: data[:-30], lambda data: b"\x80",
    lambda data: b"version https://git-lfs.github.com/spec/v1\n", lambda data: b"<html>" * 99,
    lambda data: struct.pack("<Q", 2**40) * 9])
def test_a_damaged_file(folder, tmp_path, capsys, damage):
    torch.save(folder[1], folder[0] / "pytorch_model.bin")
    data = (folder[0] / "pytorch_model.bin").read_bytes()
    (folder[0] / "pytorch_model.bin").write_bytes(damage(data))
    assert "pytorch_model.bin " in refusal(capsys, folder[0], tmp_path / "out")


def test_what_else_is_refused(folder, tmp_path, capsys):
    source, weights = folder
    assert "there is no pytorch_model.bin beside" in refusal(capsys, source, tmp_path / "out")
    assert "has safetensors already" in refusal(capsys, source, BUNDLED["tales-small"])
    assert "unknown model 'nobody'" in refusal(capsys, "nobody", tmp_path / "out")
    torch.save({"x": torch.ones(2), **weights}, source / "pytorch_model.bin")
    assert "a tensor 'x' that GPT2 does not have" in refusal(capsys, source, tmp_path / "more")
    torch.save(weights, source / "pytorch_model.bin")
    (tmp_path / "file").touch()
    assert "failed" in refusal(capsys, source, tmp_path / "file", code=1)
    (source / "config.json").write_text('{"model_type": "bert"}')
    assert "model_type is 'bert'" in refusal(capsys, source, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_in_place(tmp_path, capsys):
    write_checkpoint(tmp_path, "tiny")
    want = logits(tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(WeightsError) as error:
        load_model(tmp_path)
    command = str(error.value).split("`")[1].split()
    assert command == ["python", "-m", "weights.convert", str(tmp_path), f"{tmp_path}-safetensors"]
    done = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, check=False, timeout=300)
    assert done.returncode == 0
    assert torch.equal(logits(f"{tmp_path}-safetensors"), want)
    assert convert([str(tmp_path), str(tmp_path)]) == 0
    assert torch.equal(logits(tmp_path), want)
