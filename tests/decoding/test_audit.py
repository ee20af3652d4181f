"""Mistakes planted in the speculative loop: the audit of greedy texts must find each of them.

It must also leave honest runs alone. The quick tests take a tiny pair, the slow ones the bundled
pair, which is not so sure of its choices.
"""
from contextlib import nullcontext
from functools import cache

import pytest

from decoding import benchmark
from decoding.bench import sweep
from decoding.cli import session
from tests import audit
from tests.commands import ask
from tests.planted import MISTAKES, rewind_too_little
from weights import load_fast

DTYPES = "float32", "bfloat16", "float16"
OPENINGS = ("Once upon a time, there was a little girl", "A king had three sons", "The old woman")
LENGTH = 30
# One wrong row moves no choice of the tiny pair.
SEEN_BY_THE_TINY_PAIR = [name for name in MISTAKES if name != "stale row"]


@pytest.fixture(scope="module")
def loaded():
    return cache(load_fast)


@pytest.fixture(autouse=True)
def loaded_once(loaded, monkeypatch):
    for program in (session, sweep):
        monkeypatch.setattr(program, "load_fast", loaded)


@pytest.fixture
def bundled(loaded, monkeypatch):
    """Load the bundled pair, for runs after these prompts."""
    def bundled(dtype, prompts):
        monkeypatch.setattr(audit, "load_fast", loaded)
        monkeypatch.setattr(audit, "PROMPTS", prompts)
        return audit.load(dtype, "plain")
    return bundled


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mistake", SEEN_BY_THE_TINY_PAIR)
def test_the_command_line_finds_the_mistake(mistake, dtype, pair, capsys):
    with MISTAKES[mistake]():
        assert last_line_of_generate(capsys, pair, dtype, "Once").endswith(": DIFFERENT")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mistake", SEEN_BY_THE_TINY_PAIR)
def test_the_benchmark_finds_the_mistake(mistake, dtype, pair, tmp_path, capsys):
    with MISTAKES[mistake]():
        line = last_line_of_benchmark(capsys, pair[:4], dtype, "Once", tmp_path)
    assert line.endswith(": DIFFERENT")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_mistakes_are_found_with_the_bundled_pair(dtype, bundled):
    pair = bundled(dtype, OPENINGS[:1])
    for mistake in ("accept all", "stale row"):
        assert list(audit.verdicts(pair, MISTAKES[mistake], LENGTH)) == ["DIFFERENT"]


def last_line_of_generate(capsys, models, dtype, prompt):
    answer = ask(capsys, *models, "--dtype", dtype, "--temperature", 0, "--layout", "plain",
                 "--ignore-eos", "--max-new-tokens", LENGTH, prompt)
    assert answer.code == 0
    return answer.err.splitlines()[-1]


def last_line_of_benchmark(capsys, models, dtype, prompt, folder):
    file = folder / "p.txt"
    file.write_text(prompt)
    code = benchmark.main([*models, "--dtype", dtype, "--layout", "plain", "--prompts", str(file),
                           "--lengths", str(LENGTH), "--gammas", "4", "--temperatures", "0",
                           "--repeats", "1", "--tune"])
    out, err = capsys.readouterr()
    assert code == 1 and out == ""
    return err.splitlines()[-1]


def test_a_cache_that_keeps_too_much_stops_the_run(pair, capsys):
    with rewind_too_little():
        answer = ask(capsys, *pair, "--max-new-tokens", LENGTH, "Once")
    assert answer.code == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_honest_runs_of_the_tiny_pair_are_left_alone(dtype, pair, capsys):
    answer = ask(capsys, *pair, "--dtype", dtype, "--ignore-eos", "--max-new-tokens", 90, "Once")
    assert answer.code == 0 and "ids identical: " in answer.err
    assert "DIFFERENT" not in answer.err


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_honest_runs_are_left_alone(dtype, bundled):
    found = set(audit.verdicts(bundled(dtype, OPENINGS), nullcontext, LENGTH))
    assert found and found <= {"same text", "near-tie"}
