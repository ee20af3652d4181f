"""Folders of every family, as transformers writes them and as the hub has them."""
import base64
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.fast.preferences import ONEDNN, PLAIN, STRIPS
from tests.commands import ask
from tests.model.tiny_families import KINDS, write_tiny
from tests.weights.test_shards import write_shards
from weights import WeightsError, load_fast, load_model
from weights.families import FAMILIES
from weights.fast import pick_dtype

TOKENS = torch.randint(2, 131, (1, 90), generator=torch.Generator().manual_seed(0))
UNTIED = ("pythia", "llama-3.1", "deepseek")
HEADS = {name: {"gpt2": "wte", "gpt-neo": "wte", "pythia": "embed_out"}.get(name, "embed_tokens")
         for name in KINDS}


@pytest.fixture(scope="module", params=KINDS)
def written(request, tmp_path_factory):
    """The name of a tiny model, its folder, and the logits that transformers computes with it."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    reference = write_tiny(folder, request.param)
    # As transformers writes it now, and in shards.
    reference.save_pretrained(folder.with_name("shards"), max_shard_size="60kB")
    with torch.no_grad():
        return request.param, folder, reference(TOKENS).logits


def family(folder):
    return FAMILIES[json.loads((folder / "config.json").read_text())["model_type"]]


def bare(key, folder):
    """The name of a tensor without its family's prefix."""
    start = family(folder).prefix.match(key)
    return key[start.end():] if start else key


def copied(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    return copy, weights


def same(model, want):
    return (model(TOKENS) - want).abs().max().item() < 1e-4


@pytest.mark.parametrize("layout", [None, PLAIN, STRIPS, ONEDNN, "auto"])
def test_a_folder_as_the_hub_has_it(written, layout):
    _, folder, want = written
    model = load_model(folder) if layout is None else load_fast(folder, layout=layout)
    assert same(model, want)
    assert not model.training and not any(w.requires_grad for w in model.parameters())
    stored = {bare(key, folder) for key in load_file(folder / "model.safetensors")}
    assert set(model.state_dict()) == stored


def test_a_folder_as_transformers_writes_it_now_in_shards(written):
    _, folder, want = written
    shards = folder.with_name("shards")
    assert len(list(shards.glob("*.safetensors"))) > 2
    assert same(load_model(shards), want)


def buffers(name, n_layer=4):
    """What old files of this family hold beside the weights."""
    prefix = {"gpt2": "transformer.h.{}.attn.", "gpt-neo": "transformer.h.{}.attn.attention.",
              "pythia": "gpt_neox.layers.{}.attention."}.get(name, "model.layers.{}.self_attn.")
    found = {}
    for layer in range(n_layer):
        start = prefix.format(layer)
        if name in ("gpt2", "gpt-neo", "pythia"):
            found[start + "bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
            found[start + "masked_bias"] = torch.tensor(-torch.inf)
        if name in ("pythia", "llama-3.2", "llama-3.1", "deepseek"):
            found[start + "rotary_emb.inv_freq"] = torch.ones(8)
    return found


def test_other_prefixes_and_buffers(written, tmp_path):
    """Some files have names without their prefix; those of opt-350m have another prefix."""
    name, folder, want = written
    folder, weights = copied(folder, tmp_path)
    for prefix in ("", "decoder.") if name.startswith("opt") else ("",):
        renamed = {prefix + bare(key, folder): weight for key, weight in weights.items()}
        save_file({**renamed, **buffers(name)}, folder / "model.safetensors")
        assert same(load_model(folder), want)


def test_a_tied_head_under_either_name_or_both(written, tmp_path):
    name, folder, want = written
    folder, weights = copied(folder, tmp_path)
    embedding = next(key for key in weights if HEADS[name] in key)
    forms = [{**weights, "lm_head.weight": weights[embedding].clone()},
             {("lm_head.weight" if key == embedding else key): w for key, w in weights.items()},
             {**weights, "lm_head.weight": weights[embedding] + 1}]
    if name in UNTIED:  # its head is a matrix of its own
        head = "embed_out.weight" if name == "pythia" else "lm_head.weight"
        forms, words = [{key: w for key, w in weights.items() if key != head}], f"no tensor {head}"
    else:
        for form in forms[:2]:
            save_file(form, folder / "model.safetensors")
            assert same(load_model(folder), want)
        words = f"lm_head.weight differs from {embedding}"
    save_file(forms[-1], folder / "model.safetensors")
    for load in (load_model, load_fast):
        with pytest.raises(WeightsError, match=words):
            load(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision(written, tmp_path, dtype):
    """Read as float32 they are the very numbers, and `auto` is their own format."""
    _, folder, _ = written
    folder, weights = copied(folder, tmp_path)
    weights = {key: weight.to(dtype) for key, weight in weights.items()}
    write_shards(folder, weights)
    model = load_fast(folder)
    for key, weight in weights.items():
        name = bare(key, folder)
        turned = name.endswith(family(folder).turned)
        assert torch.equal(model.state_dict()[name], (weight.T if turned else weight).float()), key
    assert pick_dtype("auto", folder, "cuda") == dtype
    assert {weight.dtype for weight in load_fast(folder, dtype=dtype).parameters()} == {dtype}


def test_heads_that_do_not_divide_the_width(written, tmp_path):
    name, folder, _ = written
    key = {"gpt2": "n_head", "gpt-neo": "num_heads"}.get(name, "num_attention_heads")
    folder, weights = copied(folder, tmp_path)
    save_file(weights, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: 5}))
    with pytest.raises(WeightsError, match=r"config.json: "):
        load_model(folder)


BYTES = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))


def with_vocabulary(folder, copy, n_rows, seed=None):
    """Copy a model folder, and give it a vocabulary of 257 tokens, n_rows rows, and some noise."""
    shutil.copytree(folder, copy)
    generator = torch.Generator().manual_seed(seed or 0)
    weights = load_file(copy / "model.safetensors")
    for key, weight in weights.items():
        if len(weight) == 131:
            rows = torch.randn(n_rows, weight.shape[1], generator=torch.Generator().manual_seed(9))
            weights[key] = weight = rows * weight.std()
        if seed is not None:
            noise = torch.randn(weight.shape, generator=generator)
            weights[key] = weight + 0.05 * weight.std() * noise
    save_file(weights, copy / "model.safetensors")
    (copy / "own.tiktoken").write_bytes(BYTES)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "vocab_size": n_rows}))


@pytest.mark.parametrize("options", [
    ["--temperature", "0"],
    ["--seed", "1", "--coupling", "gumbel"], ["--temperature", "0", "--tree", "2x2"]])
def test_the_program_continues_a_text(written, tmp_path, capsys, options, monkeypatch):
    """Target and draft have different rows; the text is the target's own all the same."""
    _, folder, _ = written
    with_vocabulary(folder, tmp_path / "target", 272)
    with_vocabulary(folder, tmp_path / "draft", 264, seed=1)
    monkeypatch.chdir(tmp_path)
    answer = ask(capsys, "--target", "./target", "--draft", "./draft", "--layout", "plain",
                 "--max-new-tokens", 40, "--json", *options, "Once upon")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result["identical"] or result["first_difference"]["verdict"] == "near-tie"
    assert result["speculative"]["stats"]["accepted"] > 0
