"""Folders and files that are no GPT-2, or none any more: one line says what is wrong."""
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from decoding.bench.counting_gpt2 import write_checkpoint
from weights import WeightsError, load_fast, load_model
from weights.choices import FILE
from weights.output import cache_folder


@pytest.fixture
def folder(tmp_path):
    """A good model folder, for the test to spoil: 2 layers, width 64, 300 tokens, context 64."""
    write_checkpoint(tmp_path, "tiny")
    load_model(tmp_path)
    return tmp_path


def refusal(folder):
    choices = cache_folder() / FILE
    choices.unlink(missing_ok=True)
    for load in (load_model, load_fast):
        with pytest.raises(WeightsError) as error:
            load(folder)
    message = str(error.value)
    assert not choices.exists()  # layers are timed for files that are good
    assert "\n" not in message
    assert str(folder) in message
    return message


@pytest.mark.parametrize("name, tensor, words", [
    ("h.1.ln_2.bias", None, "no tensor h.1.ln_2.bias"),
    ("h.2.ln_1.bias", torch.zeros(64), "'h.2.ln_1.bias' that GPT2 does not have"),
    ("h.0.attn.rotary.bias", torch.zeros(64), "'h.0.attn.rotary.bias' that GPT2 does not have"),
    # a mask buffer has a layer in its name
    ("attn.bias", torch.zeros(64), "'attn.bias' that GPT2 does not have"),
    ("xh.0.attn.bias", torch.zeros(64), "'xh.0.attn.bias' that GPT2 does not have"),
    ("two\nlines", torch.zeros(64), "'two\\nlines' that GPT2 does not have"),
    ("wpe.weight", torch.zeros(65, 64),
     "wpe.weight has the shape [65, 64], its configuration needs [64, 64]"),
    ("h.0.mlp.c_fc.weight", torch.zeros(256, 64),
     "c_fc.weight has the shape [256, 64], its configuration needs [64, 256]"),
    ("h.0.mlp.c_fc.bias", torch.zeros(256, dtype=torch.int32),
     "h.0.mlp.c_fc.bias is stored as I32"),
    ("transformer.ln_f.bias", torch.zeros(64), "ln_f.bias twice"),
    ("lm_head.weight", torch.zeros(300, 64), "lm_head.weight differs from wte.weight"),
    ("lm_head.weight", torch.zeros(300, 64, dtype=torch.float16),
     "lm_head.weight differs from wte.weight"),
])
def test_a_wrong_tensor_is_named(folder, name, tensor, words):
    state = load_file(folder / "model.safetensors")
    state[name] = tensor
    save_file({name: tensor for name, tensor in state.items() if tensor is not None},
              folder / "model.safetensors")
    assert words in refusal(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["wte.weight", "h.0.mlp.c_fc.weight", "h.1.ln_2.bias"])
def test_a_weight_that_is_no_number(folder, name, value, dtype):
    state = load_file(folder / "model.safetensors")
    state = {key: weight.to(dtype) for key, weight in state.items()}
    state[name].flatten()[-1] = float(value)
    save_file(state, folder / "model.safetensors")
    for load in (load_model, load_fast):
        with pytest.raises(WeightsError) as error:
            load(folder)
        message = str(error.value)
        assert f"model.safetensors: {name} holds NaN or infinity; fetch it again" in message
        assert str(folder) in message and "\n" not in message


@pytest.mark.parametrize("key, value", [
    ("model_type", "mistral"), ("model_type", None), ("model_type", [1]),
    ("quantization_config", {"bits": 4}), ("activation_function", "gelu"),
    ("layer_norm_epsilon", 1e-6),
    ("scale_attn_weights", False), ("scale_attn_by_inverse_layer_idx", True),
    ("reorder_and_upcast_attn", True),
    ("add_cross_attention", True), ("tie_word_embeddings", False), ("n_inner", 64), ("n_head", 3),
    ("n_layer", 0),
    ("n_embd", "64"), ("vocab_size", None), ("n_positions", 2.5),
])
def test_a_config_that_is_not_gpt2_is_refused_by_name(folder, key, value):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    message = refusal(folder)
    assert key in message
    assert "config.json" in message


@pytest.mark.parametrize("key, value, words", [
    ("n_embd", 2_000_000,
     "wte.weight has the shape [300, 64], its configuration needs [300, 2000000]"),
    ("n_positions", 2**62, "n_positions must be a whole number from 1 to 10000000"),
    ("n_layer", 1000, "too few for the 1000 layers"),
])
def test_sizes_that_no_memory_could_hold(folder, key, value, words):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    assert words in refusal(folder)


@pytest.mark.parametrize("content, words", [
    (None, "has no config.json"), (b"{", "is not JSON"), (b"[1]", "is not a JSON object"),
    (b"\xff", "is not JSON"),
])
def test_a_broken_config(folder, content, words):
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_bytes(content)
    assert words in refusal(folder)


@pytest.mark.parametrize("damage, words", [
    (lambda data: b"", "is empty; fetch it again"),
    (lambda data: data[:5], "is not a safetensors file"),
    (lambda data: data[:100], "is cut short, 100 bytes of"),
    (lambda data: data[:len(data) // 2], "is cut short"),
    (lambda data: data[:-1], "is cut short"),
    (lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n",
     "is a Git LFS pointer"),
    (lambda data: b"\n<!DOCTYPE html>\n<html><body>Log in</body></html>\n" * 9, "is a web page"),
    (lambda data: bytes(range(255, -1, -1)) * 40, "is not a safetensors file"),
    (lambda data: (2).to_bytes(8, "little") + b"[]" + data, "is not a safetensors file"),
])
def test_a_broken_weights_file(folder, damage, words):
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    message = refusal(folder)
    assert words in message
    assert str(path) in message


@pytest.mark.parametrize("instead, words", [
    ("README.md", "has no model.safetensors"),
    ("model.safetensors.index.json", "model.safetensors.index.json is not an index of shards"),
    ("pytorch_model.bin", "holds pytorch_model.bin, a pickle"),
    ("pytorch_model.bin.index.json", "holds pytorch_model.bin.index.json, a pickle"),
])
def test_a_folder_without_weights(folder, instead, words):
    (folder / "model.safetensors").rename(folder / instead)
    assert words in refusal(folder)
