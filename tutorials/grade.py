"""Grades a notebook, a file of answers, or homework: python -m tutorials.grade FILE_OR_NOTEBOOK

A file of answers defines functions with the names of exercises; the exercises of every notebook
from which it answers one are graded. A file that defines `speculative_sampling` is homework.
"""
import ast
import contextlib
import importlib
import io
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from weights.console import OneLineParser, run_program, whole
from weights.terminal import tell

EXERCISES = Path(__file__).parent / "exercises"
PROGRAM = "python -m tutorials.grade"
HOMEWORK = "speculative_sampling"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code: 0 if all is correct, else 1."""
    return run_program(PROGRAM, lambda: run(argv))


def run(argv: list[str] | None) -> int:
    parser = OneLineParser(prog=PROGRAM, description="Grade answers. The file is run, so grade "
                           "unknown people's where they can do no harm.")
    parser.add_argument("file", help="a notebook (.ipynb), a Python file with answers to "
                        "exercises, or one that defines speculative_sampling: homework")
    parser.add_argument("--seed", type=whole(0), help="a number that makes fresh cases")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    options = parser.parse_args(argv)
    rows: list[dict[str, str]] = []
    for row in graded(read_answers(Path(options.file)), options.seed):
        rows.append(row)
        if options.json:
            tell(f"{row['exercise']} {row['name']}")  # what is done so far
        else:
            print(line(row), flush=True)
    if not rows:
        raise ValueError(f"{options.file} answers no exercise, and is no homework")
    correct = sum(row["grade"] == "correct" for row in rows)
    if options.json:
        print(json.dumps({"file": options.file, "seed": options.seed, "correct": correct,
                          "of": len(rows), "exercises": rows}, indent=1))
    else:
        print("\n".join(scores(rows)))
    return 0 if correct == len(rows) else 1


def read_answers(path: Path) -> dict[str, Any]:
    """Return what a file defines. Raises ValueError if it cannot be read or run.

    Of a notebook only imports, functions and classes are run: the rest would take minutes.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join(definitions("".join(cell["source"]))
                             for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
        names: dict[str, Any] = {"__name__": path.stem}
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(text, str(path), "exec"), names)
    except (Exception, SystemExit) as error:  # a learner's file may raise anything
        raise ValueError(f"cannot read {path}: {type(error).__name__}: {error}") from None
    return names


def definitions(source: str) -> str:
    """Return the imports, functions and classes of a cell."""
    lines = ["" if line[:1] in ("%", "!") else line for line in source.split("\n")]
    tree = ast.parse("\n".join(lines))
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return "\n".join(ast.unparse(node) for node in tree.body if isinstance(node, kinds))


def exercises() -> Iterator[tuple[str, str, Callable]]:
    """Yield notebook, name and check of each exercise, in the order of the notebooks."""
    for path in sorted(EXERCISES.glob("e*.py")):
        module = importlib.import_module(f"tutorials.exercises.{path.stem}")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                yield path.stem[1:], node.name.removeprefix("check_"), getattr(module, node.name)


def graded(answers: dict[str, Any], seed: int | None) -> Iterator[dict[str, str]]:
    """Yield one row for each exercise: its number, its name, the grade, and what the check said."""
    if HOMEWORK in answers:
        from tutorials.homework.judge import checks

        for number, (name, check) in enumerate(checks(seed), 1):
            yield graded_row(f"H.{number}", name, partial(check, answers[HOMEWORK]))
        return
    known = list(exercises())
    notebooks = {notebook for notebook, name, _ in known if callable(answers.get(name))}
    for notebook in sorted(notebooks):
        here = [(name, check) for other, name, check in known if other == notebook]
        for number, (name, check) in enumerate(here, 1):
            exercise = f"{int(notebook)}.{number}"
            if name not in answers:
                yield {"exercise": exercise, "name": name, "grade": "not answered yet", "said": ""}
            else:
                yield graded_row(exercise, name, partial(check, answers[name], seed=seed))


def graded_row(exercise: str, name: str, check: Callable[[], str]) -> dict[str, str]:
    """Run a check; keep what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        grade = check()
    words = said.getvalue().strip().removeprefix(grade).removeprefix(": ")
    return {"exercise": exercise, "name": name, "grade": grade, "said": words}


def line(row: dict[str, str]) -> str:
    """Return a row of the table, and below it what was said about a wrong answer."""
    said = [f"      {text}" for text in row["said"].split("\n") if text]
    return "\n".join([f"{row['exercise']:5} {row['name']:34} {row['grade']}", *said])


def scores(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield the score of each notebook."""
    for part, group in itertools.groupby(rows, key=lambda row: row["exercise"].split(".")[0]):
        grades = [row["grade"] for row in group]
        name = "homework" if part == "H" else f"notebook {part}"
        yield f"{name}: {grades.count('correct')} of {len(grades)} correct"


if __name__ == "__main__":
    sys.exit(main())
