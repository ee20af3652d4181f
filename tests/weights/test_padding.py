"""Embeddings with more rows than tokens: they load, and no id without a text is ever drawn."""
import base64
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from decoding import Sampling, autoregressive, speculative_sampling
from model import GPT2, GPT2Config
from tests.commands import ask, one_line, write_pair
from tests.weights.test_hub import hub_server, python
from weights import (
    WeightsError,
    load_fast,
    load_model,
    load_tokenizer,
    vocabulary_difference,
)

BYTES = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))


def pad(folder, n_rows):
    """More rows for the embedding, which would win every comparison if they took part in it."""
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = n_rows
    (folder / "config.json").write_text(json.dumps(config))
    state = load_file(folder / "model.safetensors")
    wte = state["wte.weight"]
    more = torch.full((n_rows - len(wte), wte.shape[1]), 9.0, dtype=wte.dtype)
    more[1::2] *= -1  # one of the two signs wins
    state["wte.weight"] = torch.cat([wte, more])
    save_file(state, folder / "model.safetensors")


def gpt2_of(n_rows, folder):
    """A model folder without a vocabulary, width 8."""
    folder.mkdir(exist_ok=True)
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_ctx": 8,
              "vocab_size": n_rows}
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    state = GPT2(GPT2Config(1, 1, 8, n_rows, 8)).state_dict()
    for name in ("h.0.attn.c_attn.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight"):
        state[name] = state[name].T.contiguous()
    save_file(state, folder / "model.safetensors")
    return str(folder)


@pytest.mark.parametrize("load", [load_model, load_fast])
@pytest.mark.parametrize("n_rows", [258, 264, 1280])
def test_padding_changes_no_logits_and_no_text(tmp_path, load, n_rows):
    write_pair(tmp_path)
    plain = load_model(tmp_path / "target")
    shutil.copytree(tmp_path / "target", tmp_path / "padded")
    pad(tmp_path / "padded", n_rows)
    padded, tokens = load(tmp_path / "padded"), torch.arange(20)[None]
    assert (padded.config.n_vocab, len(padded.wte.weight)) == (257, n_rows)
    torch.testing.assert_close(padded(tokens), plain(tokens), rtol=0, atol=1e-4)
    assert padded(tokens).shape == (1, 20, 257)
    assert autoregressive(padded, [1, 2], 30).tokens == autoregressive(plain, [1, 2], 30).tokens
    hot, generator = Sampling(temperature=50.0), torch.Generator().manual_seed(0)
    run = speculative_sampling(padded, plain, [1], 60, sampling=hot, generator=generator)
    assert len(set(run.tokens)) > 20 and max(run.tokens) < 257
    assert load_tokenizer(tmp_path / "padded").n_vocab == 257


def test_a_target_and_a_draft_with_different_padding_work_together(tmp_path, capsys):
    pair = write_pair(tmp_path)
    sampled = ["--temperature", "1", "--seed", "3"]
    for more in ([], sampled, ["--coupling", "gumbel", *sampled]):
        want = ask(capsys, *pair, "abc", "--max-new-tokens", 40, *more)
        assert want.code == 0
        for name, n_rows in (("target", 258), ("draft", 320)):
            shutil.copytree(tmp_path / name, tmp_path / f"{name}-padded")
            pad(tmp_path / f"{name}-padded", n_rows)
            folder = str(tmp_path / name)
            padded = [folder + "-padded" if value == folder else value for value in pair]
            assert ask(capsys, *padded, "abc", "--max-new-tokens", 40, *more).out == want.out
            shutil.rmtree(tmp_path / f"{name}-padded")
    assert "257 tokens" in one_line(ask(capsys, *pair, "abc", "--draft", "tales-small"))


@pytest.mark.parametrize("n_rows", [50257, 50258, 50304, 51200])
def test_a_folder_without_a_vocabulary_is_gpt2s_with_padding(tmp_path, n_rows):
    folder = gpt2_of(n_rows, tmp_path / "model")
    loaded = load_model(folder)
    assert (loaded.config.n_vocab, len(loaded.wte.weight)) == (50257, n_rows)
    assert vocabulary_difference(load_tokenizer(folder), load_tokenizer("gpt2")) is None


@pytest.mark.parametrize("n_rows", [50256, 51281])
def test_what_cannot_be_gpt2s_vocabulary(tmp_path, n_rows):
    """The model still runs, on ids; there are no words for them."""
    folder = gpt2_of(n_rows, tmp_path / "model")
    assert load_model(folder).config.n_vocab == n_rows
    with pytest.raises(WeightsError, match=rf"has {n_rows} tokens and no vocabulary"):
        load_tokenizer(folder)


@pytest.mark.parametrize("n_rows", [256, 1281])
def test_a_vocabulary_of_another_model_is_refused_by_both(tmp_path, n_rows):
    folder = Path(gpt2_of(n_rows, tmp_path / "model"))
    (folder / "own.tiktoken").write_bytes(BYTES)
    for load in (load_model, load_fast, load_tokenizer):
        with pytest.raises(WeightsError, match=rf"own.tiktoken has 257 tokens .* says {n_rows}"):
            load(folder)


@pytest.mark.slow
def test_a_padded_repository(tmp_path):
    gpt2_of(50304, tmp_path / "model")
    files = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    code = """
from weights import load_model, load_tokenizer
model = load_model("my/own")
print(model.config.n_vocab, len(model.wte.weight), load_tokenizer("my/own").eot_token)
"""
    with hub_server(files) as endpoint:
        assert python(code, endpoint, tmp_path / "home") == ["50257 50304 50256"]
