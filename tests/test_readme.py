"""What README.md says is true: its commands, its code, its story and its links."""
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from decoding.bench.options import make_parser
from decoding.cli import options
from decoding.quality import options as evaluate_options
from tests.commands import ask
from weights import convert, train
from weights.registry import resolve

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def blocks(language):
    """The fenced blocks of one language; those of none are outputs."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in every if name == language]


def commands():
    """Each python and pip command in a block or in backticks, without its comment, as words."""
    spans = re.findall(r"`((?:python|pip) [^`\n]+)`", README)
    lines = [*"".join(blocks("sh")).splitlines(), *spans]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [shlex.split(part, comments=True) for part in parts
            if part.startswith(("python ", "pip "))]


PROGRAMS = [words[2:] for words in commands()
            if words[:2] == ["python", "-m"] and "--list-models" not in words]  # which only prints
QUICK = [words for words in PROGRAMS
         if words[0] == "decoding.generate" and not {"--target", "--list-models"} & {*words}]
PARSERS = {
    "decoding.generate": options.parse,
    "decoding.benchmark": make_parser().parse_args,
    "weights.train": train.parse,
    "weights.check": lambda words: resolve(*words),
    "weights.convert": convert.parse,
    "decoding.evaluate": evaluate_options.parse,
    "tutorials.grade": lambda words: (ROOT / words[0]).read_text(encoding="utf-8"),
}
ALGORITHM, *EXAMPLES = blocks("python")
[OUTPUT] = blocks("")


@pytest.mark.parametrize("program, words", [(program, words) for program, *words in PROGRAMS
                                            if program not in ("venv", "pytest")])
def test_a_command_is_one_that_its_program_takes(program, words):
    PARSERS[program](words)  # a refusal is a SystemExit, or a WeightsError


@pytest.mark.parametrize("words", [
    pytest.param(words, id=" ".join(words), marks=[pytest.mark.slow] if words else [])
    for _, *words in QUICK])
def test_a_command_runs(capsys, monkeypatch, words):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))  # Enter, for --step; then it goes on
    answer = ask(capsys, *words, "--max-new-tokens", 12)
    assert answer.code == 0, answer.err
    assert "speed-up  " in answer.err
    if "--coupling" in words or "0" in words:
        assert answer.err.endswith("ids identical: yes\n")


def test_every_file_that_is_installed_from_is_there():
    files = [words[-1] for words in commands() if words[:3] == ["pip", "install", "-r"]]
    assert "requirements.txt" in files and "tests/requirements.txt" in files
    for file in files:
        assert (ROOT / file).is_file(), file


def test_a_newcomers_commands_are_those_that_ci_runs():
    assert "pip install -r requirements.txt && python -m decoding.generate\n" in CI
    assert "pip install -r requirements.txt && python -m decoding.generate " in README


@pytest.mark.slow
def test_the_story_is_the_programs():
    """By one thread: with another number the same seed need not give the same text."""
    [words] = [words for words in QUICK if "--seed" in words]
    result = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True,
                            text=True, encoding="utf-8", check=True, timeout=180,
                            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"})
    told, reason = re.fullmatch(r"(.*)\n\n(.*)", OUTPUT.strip(), re.DOTALL).groups()
    assert " ".join(told.split()) == " ".join(f"Once upon a time{result.stdout}".split())
    passes = r"\d+ passes of the target instead of \d+"
    found = re.search(rf"{passes}.*", result.stderr)
    assert without_times(reason) == without_times(found.group())


def without_times(reason):
    """The passes, and the tokens that a round gave; the rest of the sentence is the clock's."""
    return re.search(r"^(.*); a round cost \S+ plain steps and (gave \S+ tokens),",
                     " ".join(reason.split())).groups()


def test_the_algorithm_is_page_ones():
    assert len(ALGORITHM.splitlines()) <= 12
    page = (ROOT / "decoding" / "minimal.py").read_text(encoding="utf-8")
    assert textwrap.indent(ALGORITHM, "    ") in page


@pytest.mark.slow
def test_the_examples_run(capsys):
    names = {}
    for example in EXAMPLES:
        exec(example, names)
    assert capsys.readouterr().out.strip()
    drafted = names["speculative_greedy"](names["target"], names["Copycat"](), names["prompt"], 100)
    assert drafted.accepted > 0  # the drafter of one's own does something


def test_links_and_images_exist():
    for target in re.findall(r"\]\(([^)#\s]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_it_is_short_enough_to_be_read():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert all(len(line) <= 100 for line in lines if not line.startswith("|"))
