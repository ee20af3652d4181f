"""--dtype auto: the format of the target's file, or float32 where the processor lacks a kernel."""
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.commands import ask, write_pair
from weights.fast import pick_dtype

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Options for a pair whose target is stored in each format: {format: options}."""
    folder = tmp_path_factory.mktemp("formats")
    options = write_pair(folder)
    pairs = {}
    for dtype in FORMATS:
        target = folder / str(dtype)
        shutil.copytree(folder / "target", target)
        weights = load_file(target / "model.safetensors")
        save_file({name: weight.to(dtype) for name, weight in weights.items()},
                  target / "model.safetensors")
        pairs[dtype] = [*options, "--target", str(target)]
    return pairs


@pytest.mark.parametrize("kernels, taken", [
    (FORMATS, ["float16", "bfloat16", "float32", "float32"]),
    ([torch.bfloat16, torch.float32, torch.float64], ["float32", "bfloat16", "float32", "float32"]),
    ([torch.float32, torch.float64], ["float32"] * 4)])
def test_auto_is_the_files_format_where_there_is_a_kernel(stored, kernels, taken, monkeypatch,
                                                          capsys):
    monkeypatch.setattr("weights.fast.has_kernel", lambda dtype: dtype in kernels)
    for dtype, name in zip(FORMATS, taken, strict=True):
        answer = ask(capsys, *stored[dtype], "--device", "cpu", "--dtype", "auto", "--json",
                     "--max-new-tokens", 3, "Once")
        assert answer.code == 0
        assert json.loads(answer.out)["settings"]["dtype"] == name
        assert f"; {name} on cpu, " in answer.err.splitlines()[0]


def test_an_accelerator_needs_no_kernel_of_the_processor(stored, monkeypatch):
    monkeypatch.setattr("weights.fast.has_kernel", lambda dtype: False)
    for dtype, want in zip(FORMATS, [*FORMATS[:3], torch.float32], strict=True):
        folder = stored[dtype][-1]
        assert pick_dtype("auto", folder, "cuda") == want
        assert pick_dtype("bfloat16", folder, "cpu") == torch.bfloat16  # what is asked for is done


def test_the_first_line_names_the_format_that_was_asked_for(stored, capsys):
    answer = ask(capsys, *stored[torch.float16], "--device", "cpu", "--max-new-tokens", 3, "Once")
    assert "; float32 on cpu, " in answer.err.splitlines()[0]
