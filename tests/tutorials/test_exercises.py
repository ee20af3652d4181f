"""The exercises know right from wrong, name known mistakes, and belong to their notebooks.

Found by name, so a new exercise needs nothing here:

    tutorials/exercises/eNN.py            check_<exercise>(answer, seed=None) -> "correct", "wrong"
                                          or "not answered yet"
    tutorials/solutions/sNN.py            <exercise>, the right answer
    tests/tutorials/wrong_answers/wNN.py  <exercise>, a plausible wrong one, which the tutor knows
"""
import ast
import importlib
import inspect
import re

import pytest
import torch

from decoding.acceptance import residual
from tests.tutorials.test_tutorials import NOTEBOOKS, code_cells, read, said
from tutorials import tutor
from tutorials.exercises import e03
from tutorials.grade import exercises
from tutorials.grading import CORRECT, UNANSWERED, WRONG, Mistake, check, sentence

EXERCISES = [(notebook, name) for notebook, name, _ in exercises()]
every_exercise = pytest.mark.parametrize("number, name", EXERCISES, ids=lambda value: value)


def load(kind, number, name):
    module = {"exercises": "tutorials.exercises.e", "solutions": "tutorials.solutions.s",
              "wrong": "tests.tutorials.wrong_answers.w"}[kind]
    return getattr(importlib.import_module(module + number), name)


@pytest.fixture
def check_it(number, name):
    return load("exercises", number, f"check_{name}")


@pytest.mark.slow
@every_exercise
def test_a_check_accepts_the_solution_with_fresh_cases_too(number, name, check_it, capsys):
    for seed in (None, 0, 1):
        assert check_it(load("solutions", number, name), seed=seed) == CORRECT
        assert capsys.readouterr().out == "correct\n"


@every_exercise
def test_a_plausible_wrong_answer_is_named(number, name, check_it, capsys):
    assert check_it(load("wrong", number, name)) == WRONG
    text = capsys.readouterr().out
    assert "this is exactly what comes out when" in text and "see notebook" in text


@every_exercise
def test_a_seed_makes_cases_that_a_wrong_answer_fails(number, name, check_it):
    assert check_it(load("wrong", number, name), seed=3) == WRONG


@every_exercise
def test_a_check_says_what_was_expected(number, name, check_it, capsys):
    def raises(*arguments):
        raise ValueError("oh")

    answers = {"raises   ValueError: oh": raises, "": lambda *arguments: [None][0],
               "(3, 5, 7)": lambda *arguments: torch.ones(3, 5, 7),
               "argument": lambda: 0, "not callable": 3, "NoneType": None}
    for complaint, answer in answers.items():
        assert check_it(answer) == WRONG
        text = capsys.readouterr().out
        assert complaint in text or "rule" in name, text
        assert "expected" in text or name in ("my_rule", "repaired_rule"), text


@pytest.mark.parametrize("name, answer, words", [
    ("emitted", lambda drafted, choices: [*drafted[:agree(drafted, choices) + 1],
                                          choices[agree(drafted, choices)]],
     "the rejected token stays: "),
    ("emitted", lambda drafted, choices: drafted[:agree(drafted, choices) + 1],
     "rejected token stays in place of"),
    ("cache_lengths", lambda L, k, n: [L - n - 1 + k, L - 1, L - n - 2 + k,
                                       min(L - n - 2 + k, L - 1)], "after the round"),
    ("third_die", lambda p, q: (p - q).softmax(-1), "a softmax of p - q"),
    ("third_die", lambda p, q: residual(q, p), "q - p is taken"),
    ("distribution_when_redrawn", lambda p, q: torch.minimum(p, q) + (p - q).clamp(min=0),
     "this is p, what the right rule gives"),
    ("keep", lambda x, p, q, u: u < min(p[x], q[x]), "min(p, q)"),
    ("keep", lambda x, p, q, u: u < p[x], "u is compared with p alone"),
    ("one_token", lambda x, p, q, u: e03.one_hot(x, p) if u <= p[x] / q[x] else residual(p, q),
     "u <= p/q"),
    ("one_token", lambda x, p, q, u: e03.one_hot(x, p) if u < p[x] else residual(p, q),
     "u is compared with p alone"),
    ("one_token", lambda x, p, q, u: e03.one_hot(x, p) if u < q[x] / p[x] else residual(p, q),
     "u is compared with q/p"),
    ("one_token", lambda x, p, q, u: e03.one_hot(x, p) if u < p[x] / q[x] else (p - q).softmax(-1),
     "a softmax of p - q"),
    ("one_token", lambda x, p, q, u: e03.one_hot(x, p) if u < p[x] / q[x] else residual(q, p),
     "made of q - p"),
    ("visible", lambda start, T: torch.ones(T, start + T, dtype=torch.bool).tril(),
     'notebook 1, "The key/value cache"'),
])
def test_more_mistakes_are_named(name, answer, words, capsys):
    (number,) = {number for number, exercise in EXERCISES if exercise == name}
    assert load("exercises", number, f"check_{name}")(answer) == WRONG
    text = capsys.readouterr().out
    assert "this is exactly what comes out when" in text and words in text, text


def agree(drafted, choices):
    """How many tokens are kept."""
    return next((i for i, (a, b) in enumerate(zip(drafted, choices)) if a != b), len(drafted))


def test_a_draw_does_not_pass_for_the_greedy_choice():
    torch.manual_seed(0)
    for _ in range(20):
        assert load("exercises", "01", "check_next_token")(
            lambda logits: torch.multinomial(logits[-1].softmax(-1), 1).item()) == WRONG


@every_exercise
def test_the_notebook_asks_for_what_the_solution_gives(number, name, check_it, capsys):
    (path,) = [path for path in NOTEBOOKS if path.stem.startswith(number)]
    stubs, sources = {}, {}
    checked = False
    for cell in code_cells(read(path)):
        tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))
        found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        stubs |= {name: ast.unparse(node.args) for name, node in found.items()}
        sources |= dict.fromkeys(found, cell.source)
        if f"check_{name}({name})" in cell.source:
            assert said(cell) == "not answered yet\n"
            checked = True
    solution = load("solutions", number, name)
    assert checked, f"no cell of {path.name} calls check_{name}({name})"
    assert stubs[name] == str(inspect.signature(solution))[1:-1] and solution.__doc__
    names = {}
    exec(sources[name], names)  # and what stands there is what is taken for unanswered
    assert check_it(names[name]) == UNANSWERED
    assert capsys.readouterr().out == "not answered yet\n"


def test_every_notebook_has_exercises_and_every_exercise_a_notebook():
    numbers = [path.stem[:2] for path in NOTEBOOKS]
    assert len(set(numbers)) == len(numbers)
    for number in numbers:
        assert 3 <= sum(number == exercise for exercise, _ in EXERCISES) <= 7, number
    assert {number for number, _ in EXERCISES} <= set(numbers)
    names = [name for _, name in EXERCISES]
    assert len(set(names)) == len(names), "a file of answers has one function of each name"


def test_exercises_are_numbered_as_they_are_graded_and_have_a_hint_to_unfold():
    for path in NOTEBOOKS:
        texts, after = [], None
        for cell in read(path).cells:
            if cell.cell_type == "markdown" and re.search(r"^\*\*\d+\.\*\*", cell.source, re.M):
                after = cell.source
            if after and (found := re.match(r"e\d\d\.check_(\w+)\(", cell.source)):
                texts.append((after, found[1]))
        names = [name for number, name in EXERCISES if number == path.stem[:2]]
        assert [name for _, name in texts] == names
        for number, (text, _) in enumerate(texts, 1):
            assert f"**{number}.**" in text
            assert re.search(r"<summary>A hint</summary>\n\n.+\n\n</details>", text, re.DOTALL)


def test_three_notebooks_or_more_ask_for_words_and_fold_the_answer():
    asked = [cell.source for path in NOTEBOOKS for cell in read(path).cells
             if cell.cell_type == "markdown" and cell.source.startswith("**In words.**")]
    assert len(asked) >= 3
    assert all("<details><summary>A model answer</summary>\n\n" in text for text in asked)


def known_mistakes(monkeypatch):
    """Every Mistake that some check hands to `check`."""
    found = []

    def spy(mine, truth, cases, close=1e-6, known=(), **options):
        found.extend(known)
        return CORRECT

    for number in {number for number, _ in EXERCISES}:
        module = importlib.import_module(f"tutorials.exercises.e{number}")
        monkeypatch.setattr(module, "check", spy)
    monkeypatch.setattr(tutor, "check", spy)
    for number, name in EXERCISES:
        load("exercises", number, f"check_{name}")(lambda *arguments: None)
    return found


def test_what_the_tutor_points_at_is_there(monkeypatch):
    headings = {path.stem[:2]: {line.lstrip("# ") for cell in read(path).cells
                                if cell.cell_type == "markdown"
                                for line in cell.source.split("\n") if line.startswith("## ")}
                for path in NOTEBOOKS}
    mistakes = known_mistakes(monkeypatch)
    assert len(mistakes) > 100
    for mistake in mistakes:
        number, heading = mistake.see.split(" ", 1)
        assert heading in headings[number.zfill(2)], mistake


# The grading itself

def test_an_answer_may_be_wrong_in_any_way(capsys):
    rows = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    answers = {
        "correct": lambda p: p.softmax(-1),
        "correct\n": lambda p: p.double().softmax(-1),
        "is a `return` missing?": lambda p: [None][0],
        "raises   ZeroDivisionError": lambda p: 1 / 0,
        "of the shape (3,), not a tensor of the shape (2, 3)": lambda p: p.softmax(-1)[0],
        "each row (the last axis) should sum to 1": lambda p: p.softmax(0),
        "nan": lambda p: p * float("nan"),
        "a list of 3, not a tensor": lambda p: [1, 2, 3],
        "a value of the type str": lambda p: "the answer",
        "a list of unequal parts": lambda p: [[1.0], [2.0, 3.0]],
        "takes 0 positional arguments": lambda: 1,
        "not callable": None,
    }
    for complaint, answer in answers.items():
        grade = check(answer, lambda p: p.softmax(-1), [(rows,)])
        text = capsys.readouterr().out
        assert complaint in text, text
        assert text.startswith("wrong:" if grade == WRONG else grade), text
        assert (grade == WRONG) == ("expected [[0.09" in text)


def test_an_answer_cannot_change_the_question():
    def spoils(p):
        return p.mul_(2)

    assert check(spoils, lambda p: 2 * p, [(torch.ones(2),)] * 2) == CORRECT


def test_distributions_and_words_are_compared_too(capsys):
    exact = {(0,): 0.25, (1,): 0.75}
    for answer, grade in ((exact, CORRECT), ({(0,): 0.25 + 1e-9, (1,): 0.75}, CORRECT),
                          ({(0,): 1.0, (1,): 0.0}, WRONG), ({(0,): 1.0}, WRONG),
                          ([0.25, 0.75], WRONG), (None, WRONG)):
        assert check(lambda answer=answer: answer, lambda: exact, [()]) == grade
    assert "expected {(1,): 0.75, ...}" in capsys.readouterr().out
    for answer, truth, grade in (("near-tie", "near-tie", CORRECT), ("tie", "near-tie", WRONG),
                                 (True, True, CORRECT), (torch.tensor(True), True, CORRECT),
                                 (None, "near-tie", WRONG), ([1, 2], [1, 2], CORRECT)):
        assert check(lambda answer=answer: answer, lambda truth=truth: truth, [()]) == grade
    assert "expected 'near-tie'" in capsys.readouterr().out


def test_an_answer_is_a_known_mistake_only_if_it_is_in_all_cases(capsys):
    known = [Mistake(lambda n: n + 1, "one is added", "3 The rule")]
    assert check(lambda n: n + 1, lambda n: n, [(1,), (2,)], known=known) == WRONG
    assert sentence(known[0]) in capsys.readouterr().out
    assert check(lambda n: n + 1 if n < 2 else 7, lambda n: n, [(1,), (2,)], known=known) == WRONG
    assert "one is added" not in capsys.readouterr().out


def test_what_is_unanswered_and_what_only_returns_nothing(capsys):
    def stub(n):
        ...

    def documented(n):
        """Words."""

    def forgot(n):
        n + 1

    def given(n):
        return n - 1

    for answer, grade in ((stub, UNANSWERED), (documented, UNANSWERED), (forgot, WRONG)):
        assert check(answer, lambda n: n, [(1,)]) == grade
    assert "is a `return` missing?" in capsys.readouterr().out
    assert check(given, lambda n: n, [(1,)], given=given) == UNANSWERED
    assert capsys.readouterr().out == "not answered yet\n"
