"""The table of several texts at once: what its numbers are, and that a wrong text ends the run."""
import re
from types import SimpleNamespace

import pytest
import torch

from decoding.bench import batch_table, batches
from decoding.bench.arms import NotLossless
from decoding.bench.batch_table import Measured, Run, measure_batch, where_it_ends
from decoding.proof.toys import random_prompt, tiny_pair
from decoding.result import Generation, Round
from tests.commands import Answer

TARGET, DRAFT = tiny_pair()


def options(**changes):
    return SimpleNamespace(**{"tokens": 12, "gamma": 2, "temperature": 0.0, "repeats": 2} | changes)


@pytest.fixture
def loaded(monkeypatch):
    monkeypatch.setattr(batch_table, "load", lambda options, B: (TARGET, DRAFT))


def ask(capsys, *arguments):
    try:
        code = batches.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    return Answer(code, *capsys.readouterr())


@pytest.mark.parametrize("temperature", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_smallest_table(capsys, temperature):
    answer = ask(capsys, "--layout", "plain", "--batches", 2, 1, 2, "--tokens", 4, "--gamma", 2,
                 "--repeats", 1, "--temperature", temperature)
    assert answer.code == 0, answer.err
    rows = re.findall(r"^\| (\d+) \|.*\| plain \|$", answer.out, re.MULTILINE)
    assert rows == ["1", "2"]
    assert ("6 texts in 3 arms each has the ids it has alone" in answer.out) == (temperature == 0)
    assert answer.err.count("\n") == 6


def test_prompts_differ_and_are_long_enough():
    prompts = batches.make_prompts(batches.parse(["--batches", "2", "16"]))
    assert len(prompts) == 48 == len({tuple(prompt) for prompt in prompts})
    assert min(map(len, prompts)) > 20


@pytest.mark.parametrize("arguments, words", [
    (["--batches", 0], "--batches: must be a whole number"), (["--gamma", 0], "at least 1"),
    (["--tokens", 2000], "--tokens 2000 does not fit"),
    (["--gamma", 1000], "--gamma 1000 does not fit"), (["--target", "nope"], "unknown model"),
    (["--target", "gpt2"], "no draft is known for gpt2"),
    (["--draft", "gpt2"], "different vocabularies"), (["--temperature", "-1"], "--temperature")])
def test_what_is_refused(capsys, arguments, words):
    answer = ask(capsys, *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert words in answer.err


def test_every_arm_writes_all_texts(loaded):
    prompts = [random_prompt(n) for n in range(1, 10)]
    alone = {}
    row, ties = measure_batch(options(), 3, prompts, alone)
    assert (row.B, row.gamma, ties, list(alone)) == (3, 2, 0, list(range(9)))
    for arm, runs in row.runs.items():
        assert len(runs) == 2
        assert [text.tokens for text in runs[1].texts] == list(alone.values())
        assert {text.gamma for text in runs[0].texts} == {0 if arm == "plain" else 2}
    assert row.runs["plain"][0].passes == 36 and row.empty("plain") == 0
    assert row.empty("refilled") < row.empty("speculative")


def test_a_wrong_text_ends_the_run(loaded):
    prompts = [random_prompt(n) for n in (3, 5, 8)]
    wrong = {1: measure_batch(options(), 1, prompts, {})[0].runs["plain"][0].texts[2].tokens}
    with pytest.raises(NotLossless, match="plain, B 1: a text differs"):
        measure_batch(options(), 1, prompts, wrong)


def generation(accepted):
    """A text of rounds of which 2 tokens were drafted, and so many accepted."""
    return Generation([Round([1, 2], n, 3, "bonus", (0, 0), None, None, 1.0) for n in accepted], 2)


def measured(seconds, verify=2.0, B=2):
    """Two texts, of 7 tokens in 3 rounds and of 3 tokens in 1: 4 of 6 places are taken."""
    texts = [generation([2, 1, 1]), generation([2])]
    runs = {"plain": [Run(texts, 10, 10.0)], "refilled": [Run(texts, 2, 4.0)],
            "speculative": [Run(texts, 3, s) for s in seconds]}
    return Measured(B, 2, "nn.Linear", 1.0, verify, 0.25, runs)


def test_the_numbers_of_a_row():
    row = measured([5.0, 8.0, 9.0])
    assert row.speed("plain") == 1 and row.speed("speculative") == 10 / 8
    assert (row.speedup("speculative"), row.speedup("refilled")) == (10 / 8, 10 / 4)
    assert (row.tokens_per_round, row.round_cost, row.predicted) == (2.5, 2.5, 1)
    assert row.empty("speculative") == pytest.approx(1 / 3) and row.empty("refilled") == 0


def test_where_it_ends_is_said():
    pays, loses = measured([5.0], verify=1.25, B=1), measured([20.0], verify=4.5)
    assert where_it_ends([pays]) == "Speculation pays at every B measured."
    line = where_it_ends([pays, loses])
    assert "At B = 2 speculation no longer pays (0.50)" in line
    assert "costs 4.50 steps of the same batch, at B = 1 1.25;" in line
    assert "costs 5.00 steps, and gives 2.50 tokens, so 0.50 at best" in line
    assert "33% of the places ran empty" in line and "it is 2.50" in line


def test_all_the_texts_are_in_a_timed_pass(monkeypatch):
    shapes = []
    read = type(TARGET).read

    def watched(self, tokens, positions, mask, cache):
        shapes.append((self is DRAFT, *tokens.shape, mask.shape[-1]))
        return read(self, tokens, positions, mask, cache)

    monkeypatch.setattr(type(TARGET), "read", watched)
    assert all(seconds > 0 for seconds in batch_table.pass_seconds(TARGET, DRAFT, 3, 4))
    assert set(shapes[3:]) == {(False, 3, 1, 65), (False, 3, 5, 69), (True, 3, 1, 65)}


def test_out_of_memory_is_one_line(capsys, monkeypatch):
    def none(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(batch_table, "load", none)
    answer = ask(capsys, "--batches", 1)
    assert answer.code == 1 and answer.err.count("\n") == 1
    assert "try fewer texts, --batches" in answer.err
