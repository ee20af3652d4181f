"""Grades a notebook, a file of answers, or homework: python -m tutorials.grade FILE_OR_NOTEBOOK

A notebook is graded on its own exercises: those it imports, as in `from tutorials.exercises import
e04`. A file of answers defines functions with the names of exercises; the exercises of every
notebook from which it answers one are graded. A Python file that defines `speculative_sampling`
itself is homework.
"""
import ast
import contextlib
import importlib
import io
import itertools
import json
import re
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
DEFINITIONS = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
ASSIGNMENTS = ast.Assign, ast.AnnAssign, ast.AugAssign
IPYTHON = r"^[%!?].*$|^[\w.]+\?{1,2}$"  # lines that only IPython reads: %time, !ls, torch.rand?


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
    for row in grades(Path(options.file), options.seed):
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


def grades(path: Path, seed: int | None) -> Iterator[dict[str, str]]:
    """Yield one row for each exercise of a notebook or file, or for each check of homework."""
    if path.suffix == ".ipynb":
        with told(path):
            trees = cells(path)
            answers = answers_of(trees, path)
        return graded(answers, notebooks_asked(trees), seed)
    with told(path):
        answers = {"__name__": path.stem}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), answers)
    if getattr(answers.get(HOMEWORK), "__module__", None) == path.stem:  # not only imported
        return graded_homework(answers[HOMEWORK], seed)
    return graded(answers, {notebook for notebook, name, _ in exercises()
                            if callable(answers.get(name))}, seed)


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Keep what a file prints off the table. Raises ValueError if it cannot be read or run."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:  # a learner's file may raise anything
        raise ValueError(f"cannot read {path}: {type(error).__name__}: {error}") from None


def cells(path: Path) -> list[ast.Module]:
    """Return the code cells of a notebook, without what only IPython reads."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    sources = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return [ast.parse(re.sub(IPYTHON, "", source, flags=re.MULTILINE), f"code cell {i}")
            for i, source in enumerate(sources, 1)]


def notebooks_asked(trees: list[ast.Module]) -> set[str]:
    """Return the numbers of the notebooks whose exercises are imported, as in {"04"}."""
    return {name.name[1:] for tree in trees for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "tutorials.exercises"
            for name in node.names}


def answers_of(trees: list[ast.Module], path: Path) -> dict[str, Any]:
    """Run the imports, functions and classes of a notebook; all of it would take minutes.

    In a cell that answers an exercise assignments are run, too: an answer may be a lambda, or use a
    constant. What needs something that was not run is passed over.
    """
    asked = notebooks_asked(trees)
    wanted = {name for notebook, name, _ in exercises() if notebook in asked}
    answers: dict[str, Any] = {"__name__": path.stem}
    for tree in trees:
        answered = any(wanted & set(names(node)) for node in tree.body)
        for node in tree.body:
            if isinstance(node, DEFINITIONS) or (answered and isinstance(node, ASSIGNMENTS)):
                with contextlib.suppress(NameError):
                    exec(compile(ast.Module([node], []), path.stem, "exec"), answers)
    return answers


def names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines or assigns."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif isinstance(node, ASSIGNMENTS):
        yield from (part.id for part in ast.walk(node)
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def exercises() -> Iterator[tuple[str, str, Callable]]:
    """Yield notebook, name and check of each exercise, in the order of the notebooks."""
    for path in sorted(EXERCISES.glob("e*.py")):
        module = importlib.import_module(f"tutorials.exercises.{path.stem}")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                yield path.stem[1:], node.name.removeprefix("check_"), getattr(module, node.name)


def graded_homework(function: Any, seed: int | None) -> Iterator[dict[str, str]]:
    """Yield one row for each check of homework."""
    from tutorials.homework.judge import checks

    for number, (name, check) in enumerate(checks(seed), 1):
        yield graded_row(f"H.{number}", name, partial(check, function))


def graded(answers: dict[str, Any], notebooks: set[str],
           seed: int | None) -> Iterator[dict[str, str]]:
    """Yield one row for each exercise of some notebooks: number, name, grade, and what was said."""
    for notebook, group in itertools.groupby(exercises(), key=lambda exercise: exercise[0]):
        if notebook not in notebooks:
            continue
        for number, (_, name, check) in enumerate(group, 1):
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
