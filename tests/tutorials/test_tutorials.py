"""The notebooks run and say what they are stored to say.

Found by name, so a new notebook needs nothing here. Outputs of a cell tagged "varies" depend on the
machine. Their exercises: test_exercises.py.
"""
import os
import re
from functools import cache
from pathlib import Path
from statistics import median

import nbformat
import pytest
from nbclient import NotebookClient

from tutorials import coloring

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


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
    assert path.stat().st_size < 700_000  # the museum has seventeen exhibits, most with a picture


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
