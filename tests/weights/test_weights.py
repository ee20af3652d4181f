"""Checkpoints: what is loaded is what transformers' GPT2LMHeadModel makes of the same file."""
import ctypes
import itertools
import json
import os
import struct
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config as ReferenceConfig
from transformers import GPT2LMHeadModel

from decoding.bench.counting_gpt2 import write_checkpoint
from model.decoder import TiedHead
from model.fast.layouts import layout_name
from model.fast.preferences import ONEDNN, PLAIN, STRIPS
from weights import WeightsError, load_fast, load_model
from weights.tensors import TensorFile

CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 90,
          "n_positions": 24}


@pytest.fixture(scope="module")
def reference():
    """transformers' GPT-2 with weights large enough that every one of them shows in the logits."""
    model = GPT2LMHeadModel(ReferenceConfig(**{k: v for k, v in CONFIG.items()
                                               if k != "model_type"},
                                            bos_token_id=0, eos_token_id=0)).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return model


@pytest.fixture(scope="module")
def state(reference):
    """Its weights, under the names and in the layout of the official files."""
    return {name: weight.detach().clone()
            for name, weight in reference.transformer.named_parameters()}


@pytest.fixture
def write(tmp_path):
    """Write a model folder, and return its path as a value of load_model."""
    def write(state, config=CONFIG):
        (tmp_path / "config.json").write_text(json.dumps(config))
        save_file({name: weight.contiguous() for name, weight in state.items()},
                  tmp_path / "model.safetensors")
        return str(tmp_path)
    return write


def difference(model, reference):
    tokens = torch.randint(CONFIG["vocab_size"], (2, 24),
                           generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return (model(tokens) - reference(tokens).logits).abs().max().item()


@pytest.mark.parametrize("prefix, masks, head", list(itertools.product([False, True], repeat=3)))
def test_logits_equal_the_reference(reference, state, write, prefix, masks, head):
    start = "transformer." if prefix else ""
    stored = {start + name: weight for name, weight in state.items()}
    if masks:
        for n in range(CONFIG["n_layer"]):
            stored[f"{start}h.{n}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
            stored[f"{start}h.{n}.attn.masked_bias"] = torch.tensor(-1e4)
    if head:
        stored["lm_head.weight"] = state["wte.weight"].clone()
    loaded = load_model(write(stored))
    assert difference(loaded, reference) < 1e-4
    assert not loaded.training
    assert not any(weight.requires_grad for weight in loaded.parameters())


@pytest.mark.parametrize("turned", ["attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                                    "mlp.c_proj.weight"])
def test_a_matrix_that_is_stored_the_other_way_round_is_noticed(reference, state, write, turned):
    folder = write({name: weight.T if name.endswith(turned) else weight
                    for name, weight in state.items()})
    if turned == "attn.c_proj.weight":  # square: only the numbers can tell
        assert difference(load_model(folder), reference) > 0.01
    else:
        with pytest.raises(WeightsError, match=turned):
            load_model(folder)


@pytest.fixture(params=[PLAIN, STRIPS, ONEDNN])
def layout(request, choose):
    """The layers that are chosen, where there are such."""
    choose(request.param, STRIPS, TiedHead)
    return request.param


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16])
def test_stored_and_wanted_types(state, write, layout, stored, wanted):
    folder = write({name: weight.to(stored) for name, weight in state.items()})
    loaded = load_fast(folder, dtype=wanted)
    assert {weight.dtype for weight in loaded.parameters()} == {wanted}
    assert torch.equal(loaded.wte.weight, state["wte.weight"].to(stored).to(wanted))
    assert torch.equal(loaded.state_dict()["h.1.mlp.c_fc.weight"],
                       state["h.1.mlp.c_fc.weight"].T.to(stored).to(wanted))


def test_the_model_does_not_live_in_the_file(reference, state, write, layout):
    folder = write(state)
    loaded = load_fast(folder)
    # the same file, overwritten: a map would see it
    with open(folder + "/model.safetensors", "r+b") as file:
        file.write(b"\0" * (Path(folder) / "model.safetensors").stat().st_size)
    assert difference(loaded, reference) < 1e-4
    assert layout_name(loaded) == layout or layout == ONEDNN  # which not every processor has


@pytest.mark.skipif(sys.platform != "linux", reason="counts by inotify")
@pytest.mark.parametrize("load", [load_model, load_fast])
def test_the_file_is_opened_a_few_times_not_for_every_tensor(state, write, load):
    """Each time costs, on a network drive."""
    folder, libc, opened, closed = write(state), ctypes.CDLL(None), 0x20, 0x18
    watch = libc.inotify_init1(os.O_NONBLOCK)
    # equal events in a row are told once: closing keeps two openings apart
    libc.inotify_add_watch(watch, os.fsencode(folder + "/model.safetensors"), opened | closed)
    load(folder)
    events = [mask for _, mask, _, _ in struct.iter_unpack("iIII", os.read(watch, 2**16))]
    os.close(watch)
    assert 1 <= sum(mask & opened > 0 for mask in events) <= 2


@pytest.mark.parametrize("load", [load_model, load_fast])
def test_the_largest_matrices_are_read_first(state, write, load, monkeypatch):
    """When there is little of the model yet, there is room for a large one in the file's form."""
    read, sizes = TensorFile.read, []

    def recorded(file, key):
        tensor = read(file, key)
        sizes.extend([tensor.numel()] * (tensor.ndim == 2))
        return tensor

    monkeypatch.setattr(TensorFile, "read", recorded)
    load(write(state))
    assert len(sizes) == 10 and sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_weights_may_begin_at_any_byte_of_the_file(reference, state, write, more):
    path = Path(write(state)) / "model.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, tensors = data[8:8 + size] + more * b" ", data[8 + size:]
    path.write_bytes(len(header).to_bytes(8, "little") + header + tensors)
    assert difference(load_model(path.parent), reference) < 1e-4


def test_a_config_that_spells_gpt2_out_is_accepted(reference, state, write):
    spelled_out = {"n_inner": 128, "layer_norm_epsilon": 1e-05,
                   "activation_function": "gelu_pytorch_tanh", "n_ctx": 24}
    config = {**CONFIG, **spelled_out}
    assert difference(load_model(write(state, config)), reference) < 1e-4
    del config["n_positions"]  # the oldest files have n_ctx only
    assert difference(load_model(write(state, config)), reference) < 1e-4


@pytest.mark.parametrize("prefix, buffers, dtype",
                         [(False, True, torch.float32), (True, False, torch.float16)])
def test_a_counting_checkpoint_counts(tmp_path, prefix, buffers, dtype):
    write_checkpoint(tmp_path, "tiny", prefix=prefix, buffers=buffers, dtype=dtype)
    tokens = torch.arange(300)
    assert torch.equal(load_model(tmp_path)(tokens[:, None])[:, 0].argmax(1), (tokens + 1) % 300)


def test_a_spoilt_checkpoint_counts_wrong_about_as_often_as_asked(tmp_path):
    write_checkpoint(tmp_path, "tiny", spoil=0.3)
    tokens = torch.arange(300)
    wrong = load_model(tmp_path)(tokens[:, None])[:, 0].argmax(1) != (tokens + 1) % 300
    assert 0.2 < wrong.float().mean() < 0.4
