"""The notebooks run and say what they are stored to say; their exercises know right from wrong.

Found by name, so a new notebook needs nothing here:

    tutorials/NN_name.ipynb               outputs of a cell tagged "varies" depend on the machine
    tutorials/exercises/eNN.py            check_<exercise>(answer) -> "exact", "close" or "wrong"
    tutorials/solutions/sNN.py            <exercise>, the right answer
    tests/tutorials/wrong_answers/wNN.py  <exercise>, a plausible wrong one
"""
import ast
import importlib
import inspect
import os
import re
from functools import cache
from pathlib import Path
from statistics import median

import nbformat
import pytest
import torch
from nbclient import NotebookClient

from tutorials import coloring, grading

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
EXERCISES = [(path.stem[1:], name.removeprefix("check_"))
             for path in sorted((ROOT / "tutorials" / "exercises").glob("e*.py"))
             for name in re.findall(r"^def (check_\w+)", path.read_text(encoding="utf-8"),
                                    re.MULTILINE)]
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_exercise = pytest.mark.parametrize("number, name", EXERCISES, ids=lambda value: value)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@cache
def run(path, folder):
    """A copy, executed by a new kernel that was started in `folder`.

    Raises CellExecutionError where a cell does.
    """
    notebook = read(path)
    # see conftest.py; a kernel is a process of its own
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("MPLBACKEND", None)  # plots as a notebook has them
    client = NotebookClient(notebook, timeout=600, startup_timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": folder}})
    client.execute(env=environment)
    return notebook


# The notebooks

@pytest.mark.slow
@every_notebook
def test_a_notebook_runs_and_says_what_is_stored(path):
    for stored, now in zip(code_cells(read(path)), code_cells(run(path, ROOT / "tutorials")),
                           strict=True):
        if "varies" in stored.metadata.get("tags", []):
            assert not now.outputs or said(stored), f"{stored.id} was never run"
            continue
        assert kinds(now) == kinds(stored), stored.id
        assert_same_text(said(now), said(stored), stored.id)


@every_notebook
def test_stored_outputs_are_those_of_one_clean_run(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr", cell.id
    text = path.read_text(encoding="utf-8")
    assert str(ROOT) not in text and "ipykernel_" not in text
    assert path.stat().st_size < 600_000


def said(cell):
    """All text in the outputs of a cell.

    What goes to stderr is about the machine: matplotlib builds its cache of fonts.
    """
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif "data" in output:
            parts += [output.data[kind] for kind in ("text/html", "text/plain")
                      if kind in output.data]
    return re.sub(r" at 0x[0-9a-f]+", "", "".join(parts))


def kinds(cell):
    """What kinds of output a cell has, pictures included; streams may be cut anywhere."""
    return sorted({kind for output in cell.outputs for kind in output.get("data", {})})


def assert_same_text(now, stored, where):
    """The same words, and numbers equal but for rounding, which differs between processors."""
    assert NUMBER.sub("#", now) == NUMBER.sub("#", stored), where
    for a, b in zip(map(float, NUMBER.findall(now)), map(float, NUMBER.findall(stored)),
                    strict=True):
        limit = 1e-9 + 0.01 * max(abs(a), abs(b))
        assert a == b or abs(a - b) <= limit, f"{where}: {a}, but {b} is stored"


def stored_times(what):
    """{notebook: times in ms}, printed as in "median step: 9.3 ms". what: "step" or "round"."""
    times = {}
    for path in NOTEBOOKS:
        text = "".join(map(said, code_cells(read(path))))
        if found := re.findall(rf"median {what}: ([\d.]+) ms", text):
            times[path.stem[:2]] = [float(ms) for ms in found]
    return times


def test_the_stored_times_of_the_notebooks_fit_together():
    """They are of one machine that did nothing else: a plain step takes about as long everywhere.

    A round that drafts four tokens takes a few of them.
    """
    steps, rounds = stored_times("step"), stored_times("round")
    assert {"01", "05", "08"} <= steps.keys() and {"02"} <= rounds.keys()
    all_steps = [ms for found in steps.values() for ms in found]
    assert max(all_steps) <= 3 * min(all_steps), steps
    for ms in (ms for found in rounds.values() for ms in found):
        assert median(all_steps) <= ms <= 6 * median(all_steps), (steps, rounds)


# The exercises

def load(kind, number, name):
    module = {"exercises": "tutorials.exercises.e", "solutions": "tutorials.solutions.s",
              "wrong": "tests.tutorials.wrong_answers.w"}[kind]
    return getattr(importlib.import_module(module + number), name)


@pytest.fixture
def check(number, name):
    return load("exercises", number, f"check_{name}")


@every_exercise
def test_a_check_accepts_the_solution(number, name, check):
    assert check(load("solutions", number, name)) in ("exact", "close")


@every_exercise
def test_a_check_rejects_a_plausible_wrong_answer(number, name, check, capsys):
    assert check(load("wrong", number, name)) == "wrong"
    assert "expected" in capsys.readouterr().out


@every_exercise
def test_a_check_says_what_was_expected(number, name, check, capsys):
    def raises(*arguments):
        raise ValueError("oh")

    answers = {"raises   ValueError: oh": raises, "": lambda *arguments: None,
               "(3, 5, 7)": lambda *arguments: torch.ones(3, 5, 7),
               "argument": lambda: 0, "not callable": 3, "NoneType": None}
    for complaint, answer in answers.items():
        assert check(answer) == "wrong"
        text = capsys.readouterr().out
        assert "expected" in text and (complaint in text or "rule" in name), text


@every_exercise
def test_the_notebook_asks_for_what_the_solution_gives(number, name):
    (path,) = [path for path in NOTEBOOKS if path.stem.startswith(number)]
    stubs = {}
    for cell in code_cells(read(path)):
        tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))
        stubs |= {node.name: ast.unparse(node.args) for node in tree.body
                  if isinstance(node, ast.FunctionDef)}
        if f"check_{name}({name})" in cell.source:
            # what is stored is what an unfinished answer gets
            assert "wrong: " in said(cell) and "expected" in said(cell)
            stubs["checked"] = True
    solution = load("solutions", number, name)
    assert stubs.get("checked"), f"no cell of {path.name} calls check_{name}({name})"
    assert stubs[name] == str(inspect.signature(solution))[1:-1] and solution.__doc__


def test_every_notebook_has_exercises_and_every_exercise_a_notebook():
    numbers = [path.stem[:2] for path in NOTEBOOKS]
    assert len(set(numbers)) == len(numbers)
    for number in numbers:
        assert 3 <= sum(number == exercise for exercise, _ in EXERCISES) <= 5, number
    assert {number for number, _ in EXERCISES} <= set(numbers)


# The grading

def test_an_answer_may_be_wrong_in_any_way(capsys):
    rows = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    answers = {
        "exact": lambda p: p.softmax(-1),
        "close": lambda p: p.double().softmax(-1),
        "is a `return` missing?": lambda p: None,
        "raises   ZeroDivisionError": lambda p: 1 / 0,
        "of the shape (3,), not a tensor of the shape (2, 3)": lambda p: p.softmax(-1)[0],
        "each row (the last axis) should sum to 1": lambda p: p.softmax(0),
        "nan": lambda p: p * float("nan"),
        "a value of the type str": lambda p: "the answer",
        "a list of unequal parts": lambda p: [[1.0], [2.0, 3.0]],
        "takes 0 positional arguments": lambda: None,
        "not callable": None,
    }
    for complaint, answer in answers.items():
        grade = grading.check(answer, lambda p: p.softmax(-1), [(rows,)])
        text = capsys.readouterr().out
        assert complaint in text, text
        assert text.startswith("wrong:" if grade == "wrong" else grade), text
        assert (grade == "wrong") == ("expected [[0.09" in text)


def test_an_answer_cannot_change_the_question():
    def spoils(p):
        return p.mul_(2)

    assert grading.check(spoils, lambda p: 2 * p, [(torch.ones(2),)] * 2) == "exact"


def test_distributions_and_words_are_compared_too(capsys):
    exact = {(0,): 0.25, (1,): 0.75}
    for answer, grade in ((exact, "exact"), ({(0,): 0.25 + 1e-9, (1,): 0.75}, "close"),
                          ({(0,): 1.0, (1,): 0.0}, "wrong"), ({(0,): 1.0}, "wrong"),
                          ([0.25, 0.75], "wrong"), (None, "wrong")):
        assert grading.check(lambda answer=answer: answer, lambda: exact, [()]) == grade
    for answer, truth, grade in (("near-tie", "near-tie", "exact"), ("tie", "near-tie", "wrong"),
                                 (True, True, "exact"),
                                 (torch.tensor(True), True, "exact"), (None, "near-tie", "wrong"),
                                 ([1, 2], [1, 2], "exact")):
        assert grading.check(lambda answer=answer: answer, lambda truth=truth: truth, [()]) == grade
    assert "expected 'near-tie'" in capsys.readouterr().out


def test_colored_text_is_whole():
    from decoding import Round
    from weights import load_tokenizer

    tokenizer = load_tokenizer("tales-large")
    ids = tokenizer.encode("the é <b>")
    rounds = [Round(ids[:1], 1, ids[1], "bonus", (0, 0), None, None, 0.0),
              Round(ids[2:], len(ids) - 2, None, "none", (0, 0), None, None, 0.0)]
    shown = re.sub(r"<[^>]*>", "", coloring.colored(rounds, tokenizer, "say & ").data)
    assert shown.startswith("say &amp; the é &lt;b&gt;")
    assert "\N{REPLACEMENT CHARACTER}" not in shown
