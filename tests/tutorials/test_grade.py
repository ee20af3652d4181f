"""`python -m tutorials.grade`: answers, notebooks and homework from the command line."""
import json
import re
from pathlib import Path

import pytest

from tutorials import grade
from tutorials.homework import judge

ROOT = Path(__file__).parents[2]
MINIMAL = (ROOT / "decoding" / "minimal.py").read_text(encoding="utf-8")


def run(capsys, *arguments):
    code = grade.main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.fixture
def write(tmp_path):
    def write(text, name="answers.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path
    return write


def notebook(*sources):
    return json.dumps({"cells": [{"cell_type": "code", "source": [source]} for source in sources]})


def test_right_answers_get_all_points_with_fresh_cases_too(capsys):
    for seed in ((), ("--seed", 7)):
        code, printed = run(capsys, ROOT / "tutorials" / "solutions" / "s02.py", *seed)
        assert code == 0 and "notebook 2: 5 of 5 correct" in printed.out and not printed.err


def test_a_table_says_what_is_wrong_and_what_is_open(capsys, write):
    code, printed = run(capsys, write("def kept(drafted, choices):\n    return len(drafted)\n"
                                      "def emitted(drafted, choices):\n    ...\n"))
    assert code == 1
    assert re.search(r"^2\.1   kept +wrong$\n      kept\(\[5, 3, 8\], \[5, 4, 8, 1\]\)$",
                     printed.out, re.MULTILINE)
    assert re.search(r"^2\.2   emitted +not answered yet$", printed.out, re.MULTILINE)
    assert re.search(r"^2\.4   rounds_of_a_perfect_draft +not answered yet$", printed.out, re.M)
    assert printed.out.endswith("notebook 2: 0 of 5 correct\n")


def test_json_is_one_object(capsys, write):
    path = write("print('hello')\ndef speedup(alpha, gamma, c, v): return gamma * c + v\n")
    code, printed = run(capsys, path, "--json", "--seed", 3)
    report = json.loads(printed.out)
    assert code == 1 and "hello" in printed.err
    assert {key: report[key] for key in ("file", "seed", "correct", "of")} == {
        "file": str(path), "seed": 3, "correct": 0, "of": 4}
    first = report["exercises"][0]
    assert (first["exercise"], first["name"], first["grade"]) == ("5.1", "speedup", "wrong")
    assert first["said"].startswith("this is exactly what comes out when the cost of a round")


def test_a_seed_finds_an_answer_that_only_knows_the_usual_cases(capsys, write):
    path = write("import torch\n"
                 "def alpha_of_a_sure_draft(p, x):\n"
                 "    return {4: p[x], 2: p[x]}[len(p)] if p[x] in (0.4, 0.3, 0.2, 0.1, 0.6, 1.0,"
                 " 0.0, 0.25, 0.75) else 0\n")
    assert "8.1   alpha_of_a_sure_draft              correct" in run(capsys, path)[1].out
    assert "8.1   alpha_of_a_sure_draft              wrong" in run(capsys, path, "--seed",
                                                                   1)[1].out


def test_a_notebook_is_graded_without_running_it(capsys, write):
    text = (ROOT / "tutorials" / "02_draft_and_verify.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if "def kept(" in "".join(cell["source"]):
            cell["source"] = ["%matplotlib inline\n", "raise SystemExit\n",
                              "from tutorials.exercises import e02\n",
                              "def count(pairs): return sum(a == b for a, b in pairs)\n",
                              "def kept(drafted, choices): return count(zip(drafted, choices))\n"]
    code, printed = run(capsys, write(json.dumps(notebook), "copy.ipynb"))
    assert code == 1 and "after the first difference" in printed.out
    assert printed.out.endswith("notebook 2: 0 of 5 correct\n")


NOTEBOOKS = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))


def changed(path, change):
    """A notebook as text; change: {the name of an exercise: its cell's new source}."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for name, new in change.items():
            if cell["cell_type"] == "code" and re.search(rf"^def {name}\(", source, re.MULTILINE):
                asked = re.findall(r"^from tutorials.exercises import .+\n", source, re.MULTILINE)
                cell["source"] = "".join(asked) + new
    return json.dumps(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem[:2])
def test_a_notebook_is_graded_on_its_own_exercises_and_no_others(path, capsys, write, monkeypatch):
    number = path.stem[:2]
    own = [name for notebook, name, _ in grade.exercises() if notebook == number]
    solutions = ROOT / "tutorials" / "solutions" / f"s{number}.py"
    solved = changed(path, dict.fromkeys(own, solutions.read_text(encoding="utf-8")))
    found = []

    def correct(exercise, name, check):  # that solutions are correct is known: test_exercises.py
        found.append((name, check.args[0].__module__))
        return {"exercise": exercise, "name": name, "grade": "correct", "said": ""}

    monkeypatch.setattr(grade, "graded_row", correct)
    code, printed = run(capsys, write(solved, "copy.ipynb"))
    assert found == [(name, "copy") for name in own]
    assert printed.out.endswith(f"notebook {int(number)}: {len(own)} of {len(own)} correct\n")
    assert code == 0 and len(printed.out.splitlines()) == len(own) + 1


def test_a_solved_notebook_gets_all_points(capsys, write):
    path = ROOT / "tutorials" / "05_choosing_gamma.ipynb"
    solution = (ROOT / "tutorials" / "solutions" / "s05.py").read_text(encoding="utf-8")
    names = "speedup", "best_gamma", "break_even_alpha", "three_rates"
    code, printed = run(capsys, write(changed(path, dict.fromkeys(names, solution)), "copy.ipynb"))
    assert code == 0 and printed.out.endswith("notebook 5: 4 of 4 correct\n")


def test_an_answer_in_a_notebook_may_be_a_lambda_or_use_a_constant(capsys, write):
    path = ROOT / "tutorials" / "02_draft_and_verify.ipynb"
    code, printed = run(capsys, write(changed(path, {
        "break_even": "price = costs[0]\nbreak_even = lambda gamma, c, v: gamma * c + v",
        "rounds_of_a_perfect_draft": "ONE: int = 1\n\ndef rounds_of_a_perfect_draft(new, gamma):\n"
                                     "    return -(-new // (gamma + ONE))"}), "copy.ipynb"))
    assert re.search(r"^2\.4   rounds_of_a_perfect_draft +correct$", printed.out, re.MULTILINE)
    assert re.search(r"^2\.5   break_even +correct$", printed.out, re.MULTILINE)
    assert code == 1 and printed.out.endswith("notebook 2: 2 of 5 correct\n")


def test_a_file_of_answers_may_import_what_homework_asks_for(capsys, write):
    path = write("from decoding import speculative_sampling\n"
                 "def speedup(alpha, gamma, c, v): return gamma * c + v\n")
    assert run(capsys, path)[1].out.endswith("notebook 5: 0 of 4 correct\n")


def test_lines_that_only_ipython_reads_are_passed_over(capsys, write):
    path = write(notebook("%matplotlib inline\n!ls\n?print\ntorch.rand?\ntorch.rand??",
                          "from tutorials.exercises import e02",
                          "def kept(drafted, choices):\n    return len(drafted)"), "a.ipynb")
    assert re.search(r"^2\.1   kept +wrong$", run(capsys, path)[1].out, re.MULTILINE)


def test_bad_input_is_one_line_and_2(capsys, write):
    for path, words in ((ROOT / "nothing.py", "No such file"),
                        (write("def f(:", "a.py"), "SyntaxError"),
                        (write("1 / 0", "b.py"), "ZeroDivisionError"),
                        (write("raise SystemExit(0)", "c.py"), "SystemExit"),
                        (write("[]", "d.ipynb"), "cannot read"),
                        (write(notebook("x = 1", "def f(:"), "f.ipynb"), "code cell 2, line 1"),
                        (write("x = 1", "e.py"), "answers no exercise")):
        code, printed = run(capsys, path)
        assert code == 2 and printed.out == "", path
        assert words in printed.err and printed.err.count("\n") == 1, printed.err


# Homework

CHANGES = {  # what is changed in the project's own page one: which checks notice, and what they say
    "the plain loop": ("min(gamma, end - L - 1)", "0", {"passes of the target", "caches"}, ""),
    "redrawn from p": ("(p[n] - q[n]).clamp(min=0) if n < k else p[n]", "p[n]",
                       {"distribution", "temperature"}, "a rejected token is redrawn from p"),
    "less or equal": ("p.device) < (p[n]", "p.device) <= (p[n]", {"impossible token"},
                      "if p = 0 and u = 0"),
    "no temperature": (" / temperature)", ")", {"temperature"},
                       "gamma = 2, temperature = 0.5: the text ("),
    "one too many": ("end = list(prompt), len(prompt)", "end = list(prompt), 1 + len(prompt)",
                     {"lengths", "distribution", "impossible token", "temperature",
                      "passes of the target", "caches"},
                     "prompt [0], max_new_tokens = 0, gamma = 0: 2 tokens that begin with the "
                     "prompt instead of 1"),
    "no cache": ("cache.truncate(min(cache.length, len(tokens) - 1))", "cache.truncate(0)",
                 {"caches"}, "tokens read again instead of 0"),
    "the draft reads one again": (
        "cache.truncate(min(cache.length, len(tokens) - 1))",
        "cache.truncate(min(cache.length, len(tokens) - (2 if cache is draft_cache else 1)))",
        {"caches"}, "the draft, gamma = 4: "),
    "the target reads one again": (
        "cache.truncate(min(cache.length, len(tokens) - 1))",
        "cache.truncate(min(cache.length, len(tokens) - (2 if cache is target_cache else 1)))",
        {"caches"}, "the target, gamma = 4: "),
    "temperature of the target alone": (
        "/ temperature)", "/ (temperature if model is target else 1))", {"temperature"},
        "it is the temperature of both models"),
    "a greedy draft": ("draw(q[-1][None], generator).tolist()", "[q[-1].argmax().item()]",
                       {"distribution", "temperature"}, "the draft proposes its favourite"),
    "a forgetful draft": ("tokens[cache.length:]]", "tokens[cache.length:][-1:] if model is draft "
                          "and len(tokens) - cache.length == 2 and cache.length else "
                          "tokens[cache.length:]]", {"passes of the target"},
                          "the draft does not read its own last proposal"),
}


def grades(capsys, path, *options):
    code, printed = run(capsys, path, "--json", *options)
    rows = json.loads(printed.out)["exercises"]
    assert code == (0 if all(row["grade"] == "correct" for row in rows) else 1)
    return {row["name"]: row["grade"] for row in rows}, printed.out


def test_the_projects_own_page_one_is_right_homework(capsys, write):
    for options in ((), ("--seed", 1)):
        found, _ = grades(capsys, write(MINIMAL, "mine.py"), *options)
        assert list(found) == [name for name, _ in judge.checks()]
        assert set(found.values()) == {"correct"}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_wrong_homework_is_noticed(change, capsys, write):
    right, mistaken, noticed, words = CHANGES[change]
    assert right in MINIMAL
    found, said = grades(capsys, write(MINIMAL.replace(right, mistaken), "mine.py"))
    wrong = {name for name, grade in found.items() if grade == "wrong"}
    if change == "one too many":
        assert {"lengths", "distribution"} <= wrong <= noticed
    else:
        assert wrong == noticed
    assert words in said


def test_homework_that_draws_elsewhere_is_told_so(capsys, write):
    text = MINIMAL.replace("uniform((1,), generator, p.device)", "torch.rand(1)")
    _, said = grades(capsys, write(text, "mine.py"))
    assert judge.RANDOMNESS in said


def test_the_homework_as_it_is_handed_out_is_not_answered_yet(capsys):
    found, _ = grades(capsys, ROOT / "tutorials" / "homework" / "speculative.py")
    assert set(found.values()) == {"not answered yet"}
    assert len(found) == 6
