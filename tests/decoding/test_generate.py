"""The command line: options have their effect, prompts come in whole, bad input gets one line."""
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from decoding import GREEDY, Sampling, speculative_rounds
from decoding import generate as program
from decoding.coupling import Coupled, SharedNoise
from decoding.feed import Uncached
from decoding.result import Generation
from decoding.speculative import usual_rule
from model.fast.layouts import layout_name
from model.fast.preferences import PLAIN
from tests.commands import END_OF_TEXT, N_CTX, Answer, ask, one_line
from weights import DownloadError, load_fast, load_model
from weights.console import run_program


def expected(pair, prompt=b"Once", sampling=GREEDY, seed=None, gamma=4, eos=END_OF_TEXT,
             wrap=lambda model: model, load=lambda path, tokens_per_pass: load_model(path)):
    """The run that the program should make of the options, by the functions it stands on."""
    target, draft = wrap(load(pair[1], 5)), wrap(load(pair[3], 2))
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    rounds = speculative_rounds(target, draft, list(prompt), 30, gamma=gamma,
                                rule=usual_rule(sampling), sampling=sampling, eos=eos,
                                generator=generator)
    return Generation(list(rounds), gamma)


def shape(run):
    return {"tokens": run.tokens, "histogram": run.histogram,
            "cached": run.prefill_seconds is not None}


def seeded(seed, *options):
    return ["--temperature", "1", "--seed", str(seed), *options]


# what the options change, from one request to another
@pytest.mark.parametrize("arguments, before, after", [
    (["--gamma", "7"], {}, {"gamma": 7}),
    (["--gamma", "0"], {}, {"gamma": 0}),
    (["--no-cache"], {}, {"wrap": Uncached}),
    (seeded(1), {}, {"sampling": Sampling(), "seed": 1}),
    (seeded(2), {"sampling": Sampling(), "seed": 1}, {"sampling": Sampling(), "seed": 2}),
    (seeded(1, "--temperature", "0.5"), {"sampling": Sampling(), "seed": 1},
     {"sampling": Sampling(0.5), "seed": 1}),
    (seeded(1, "--top-k", "3"), {"sampling": Sampling(), "seed": 1},
     {"sampling": Sampling(1, 3), "seed": 1}),
    (seeded(1, "--top-p", "0.6"), {"sampling": Sampling(), "seed": 1},
     {"sampling": Sampling(1, None, 0.6), "seed": 1}),
    (seeded(1, "--ignore-eos", "Hello"), {"prompt": b"Hello", "sampling": Sampling(), "seed": 1},
     {"prompt": b"Hello", "sampling": Sampling(), "seed": 1, "eos": None}),
    (["<|endoftext|>"], {}, {"prompt": b"<|endoftext|>"}),
    (["--allow-special", "<|endoftext|>!"], {"prompt": b"<|endoftext|>!"},
     {"prompt": [END_OF_TEXT, *b"!"]}),
    ([""], {}, {"prompt": [END_OF_TEXT]}),
])
def test_an_option_has_its_effect(pair, generate, arguments, before, after):
    prompt = [] if "prompt" in after else ["Once"]
    code, out, _ = generate("--json", "--mode", "speculative", "--max-new-tokens", 30, *prompt,
                            *arguments)
    answer, right = json.loads(out)["speculative"], shape(expected(pair, **after))
    assert code == 0
    assert right != shape(expected(pair, **before))  # the option makes a difference here
    assert right == {"tokens": answer["tokens"], "histogram": answer["stats"]["histogram"],
                     "cached": answer["stats"]["prefill_seconds"] is not None}


@pytest.mark.parametrize("mode", ["compare", "speculative", "baseline"])
def test_each_mode_runs_what_it_says(pair, capsys, mode):
    models = pair[:2] if mode == "baseline" else pair[:4]
    result = json.loads(ask(capsys, *models, *pair[4:], "--json", "--mode", mode,
                            "--max-new-tokens", 30, "Once").out)
    runs = {"baseline", "speculative"} & set(result)
    assert runs == ({"baseline", "speculative"} if mode == "compare" else {mode})
    for name in runs:
        assert result[name]["tokens"] == expected(pair).tokens
        assert (result[name]["stats"]["drafted"] == 0) == (name == "baseline")


@pytest.mark.parametrize("dtype, layout", [
    ("float32", "auto"), ("float32", "plain"), ("bfloat16", "plain"), ("float16", "plain"),
    *(pytest.param(dtype, "auto", marks=pytest.mark.slow) for dtype in ("bfloat16", "float16"))])
def test_the_models_are_loaded_as_asked(pair, generate, choose, dtype, layout):
    """With fewer bits the text is another one, and it is that of models loaded so."""
    def load(path, tokens_per_pass):
        models.append(load_fast(path, "cpu", getattr(torch, dtype), layout, tokens_per_pass))
        return models[-1]

    choose("strips", "RowHead")  # not by the clock, which may change its mind between two loads
    models, sampled = [], {"sampling": Sampling(), "seed": 6}
    result = json.loads(generate("--json", "--mode", "speculative", "--max-new-tokens", 30,
                                 "--device", "cpu", "--dtype", dtype, "--layout", layout,
                                 *seeded(6), "Once").out)
    tokens, settings = result["speculative"]["tokens"], result["settings"]
    assert tokens == expected(pair, load=load, **sampled).tokens
    assert (tokens == expected(pair, **sampled).tokens) == (dtype == "float32")
    assert (settings["dtype"], settings["layout"]) == (dtype, layout_name(models[0]))
    assert settings["head"] == type(models[0].head).__name__


@pytest.mark.parametrize("options, rows",
                         [(["--gamma", "2"], [3, 2]), (["--gamma", "auto"], [9, 2]),
                          (["--mode", "baseline"], [1])])
def test_models_are_laid_out_for_what_they_will_read_at_once(pair, capsys, choose, options, rows):
    """That shows in their speed, and in what was timed."""
    timed = choose(PLAIN)
    ask(capsys, *pair[:2 * len(rows)], *options, "--max-new-tokens", 3)
    assert [tokens for candidates, tokens, *_ in timed if PLAIN in candidates] == rows


def test_shared_noise_gives_both_loops_the_same_text(pair, generate):
    result = json.loads(generate("--json", "--max-new-tokens", 30, "Once",
                                 *seeded(5, "--coupling", "gumbel")).out)
    noise = SharedNoise(torch.Generator().manual_seed(5))
    assert result["identical"] is True
    text = expected(pair, wrap=lambda model: Coupled(model, Sampling(), noise)).tokens
    assert result["speculative"]["tokens"] == text != expected(pair).tokens


def test_the_lookup_draft(generate):
    result = json.loads(generate("--json", "--max-new-tokens", 30, "--draft", "lookup",
                                 "abcabcabc").out)
    assert result["identical"] is True
    assert result["settings"]["draft"] == "lookup"
    assert result["speculative"]["stats"]["drafted"] > 0


@pytest.mark.parametrize("contents, prompt", [
    ("日本語 😀\n".encode(), "日本語 😀\n"),
    (b"\xef\xbb\xbfOnce", "Once"),
    (b"Once\r\n\0", "Once\r\n\0"),
    (b"", ""),
])
def test_prompts_from_files_and_from_stdin(generate, tmp_path, monkeypatch, contents, prompt):
    file = tmp_path / "prompt.txt"
    file.write_bytes(contents)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(contents)))
    for name in (file, "-"):
        answer = generate("--json", "--max-new-tokens", 3, "--prompt-file", name)
        assert json.loads(answer.out)["prompt"] == prompt
        assert ("starting from <|endoftext|>" in answer.err) == (prompt == "")


def test_a_prompt_of_hidden_bytes_is_their_text(generate):
    # what Python makes of it in an ASCII console
    hidden = "é".encode().decode("ascii", "surrogateescape")
    assert json.loads(generate("--json", "--max-new-tokens", 0, hidden).out)["prompt"] == "é"


def test_a_prompt_file_that_is_not_utf8(generate, tmp_path):
    (tmp_path / "prompt.txt").write_bytes("déjà".encode("latin-1"))
    assert "prompt.txt is not UTF-8" in one_line(generate("--prompt-file", tmp_path / "prompt.txt"))


def test_a_prompt_as_long_as_the_context_and_one_longer(generate):
    runs = json.loads(generate("--json", "a" * N_CTX).out)
    for run in ("baseline", "speculative"):
        assert (len(runs[run]["tokens"]), runs[run]["finish_reason"]) == (1, "context")
    line = one_line(generate("a" * (N_CTX + 1)))
    assert f"{N_CTX + 1} tokens" in line and f"context is {N_CTX}" in line


def test_a_prompt_that_ends_in_a_space_is_used_and_a_note_says_what_that_does(generate):
    for prompt, noted in (("Once upon ", True), ("Once upon", False), ("Once\n", False)):
        answer = generate(prompt, "--max-new-tokens", "2")
        assert (answer.code, "note: the prompt ends in a space" in answer.err) == (0, noted)
        answer = generate(prompt, "--max-new-tokens", "1", "--json")
        assert json.loads(answer.out)["prompt"] == prompt


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_prompt_without_an_end(generate):
    assert "more than 1,248 bytes" in one_line(generate("--prompt-file", "/dev/zero"))


def test_a_prompt_file_of_a_megabyte(generate, tmp_path):
    (tmp_path / "prompt.txt").write_bytes(b"Once upon a time" * 2**16)
    answer = generate("--prompt-file", tmp_path / "prompt.txt")
    assert "which are more than 96 tokens" in one_line(answer)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(generate):
    assert "there is no cuda device here" in one_line(generate("--device", "cuda"))


def test_models_that_do_not_go_together(pair, capsys):
    line = one_line(ask(capsys, "--target", pair[1], "--draft", "tales-small"))
    assert "different vocabularies: 257 tokens against 4096" in line


def test_weights_that_are_no_weights(pair, capsys, tmp_path):
    line = one_line(ask(capsys, "--target", tmp_path, "--draft", pair[3]))
    assert f"{tmp_path} has no config.json" in line
    for file in Path(pair[1]).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    assert "Git LFS pointer" in one_line(ask(capsys, "--target", pair[1], "--draft", tmp_path))


@pytest.mark.parametrize("error, code, words", [
    (DownloadError("no network"), 1, "no network"),
    (OSError(28, "No space left on device"), 1, "No space left on device"),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nAnd more."), 1,
     "out of memory (CUDA out of memory. Tried to allocate 20 GiB.); try a smaller model"),
    (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), 1,
     "out of memory (MPS backend"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"), 1,
     "out of memory"),
    (MemoryError(), 1, "out of memory; try a smaller model, --dtype bfloat16"),
    (KeyboardInterrupt(), 130, "interrupted"),
])
def test_the_exit_code_tells_what_happened(capsys, error, code, words):
    def body():
        raise error

    code_found = run_program(program.PROGRAM, body, smaller=program.SMALLER)
    assert words in one_line(Answer(code_found, *capsys.readouterr()), code)


def test_a_mistake_of_ours_is_not_hidden():
    def body():
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        run_program(program.PROGRAM, body)


def test_a_model_that_cannot_be_fetched(generate):
    """Tests have no network."""
    line = one_line(generate("--target", "owner/name"), 1)
    assert "config.json of owner/name could not be downloaded" in line


@pytest.mark.parametrize("weights", [None, b"no weights"])
def test_what_cannot_fit_is_refused_before_weights_are_read(pair, capsys, tmp_path, weights):
    folders = [shutil.copytree(pair[i], tmp_path / name)
               for i, name in ((1, "target"), (3, "draft"))]
    for folder in folders:
        (folder / "model.safetensors").unlink()
        if weights is not None:
            (folder / "model.safetensors").write_bytes(weights)
    target, draft = folders
    line = one_line(ask(capsys, "--target", target, "--draft", draft, "a" * (N_CTX + 1)))
    assert f"the prompt has {N_CTX + 1} tokens, but the target's context is {N_CTX}" in line
    line = one_line(ask(capsys, "--target", target, "--draft", "tales-small"))
    assert "different vocabularies" in line
    # and now it is the weights' turn
    line = one_line(ask(capsys, "--target", target, "--draft", draft))
    assert "model.safetensors" in line


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("value, dtype, words", [
    (float("nan"), "float32", "holds NaN or infinity"),
    (float("-inf"), "float32", "holds NaN or infinity"),
    (1e6, "float16", "has weights too large for float16"),
])
def test_weights_that_are_no_numbers_are_refused_and_the_model_is_named(pair, capsys, tmp_path,
                                                                         role, value, dtype, words):
    options = [*pair]
    i = options.index(f"--{role}") + 1
    folder = shutil.copytree(options[i], tmp_path / role)
    options[i] = str(folder)
    weights = load_file(folder / "model.safetensors")
    weights["wte.weight"] = weights["wte.weight"].float()  # half precision has no 1e6
    weights["wte.weight"][3, 2] = value
    save_file(weights, folder / "model.safetensors")
    line = one_line(ask(capsys, *options, "--dtype", dtype, "Once"))
    assert f"the {role}: {folder / 'model.safetensors'}: wte.weight {words}" in line
