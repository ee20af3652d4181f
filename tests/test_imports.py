"""Imports run one way: tutorials -> decoding -> weights -> model.

No circle among files, none among folders, performance code only for programs, and nobody imports
tests. Read from the code, without running it.
"""
import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ["model", "weights", "decoding", "tutorials"]  # each may import those before it
FAST = "model.fast"


def modules():
    """{dotted name: source} of every module, packages under their own name, notebooks included."""
    found = {}
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tutorials").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        lines = "\n".join(cell.source for cell in cells if cell.cell_type == "code").splitlines()
        found[f"tutorials.{path.stem}"] = "\n".join(line for line in lines if line[:1] not in "%!")
    return found


def imports(source, known):
    """The project's modules that a module imports, wherever in it that stands.

    Under `if TYPE_CHECKING:`, nothing is imported when the program runs.
    """
    tree = ast.parse(source)
    skipped = {id(node) for branch in ast.walk(tree) if isinstance(branch, ast.If)
               and "TYPE_CHECKING" in ast.unparse(branch.test) for node in ast.walk(branch)}
    names = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in known else node.module)
    return {name for name in names if name.split(".")[0] in [*FLOORS, "tests"]}


@pytest.fixture(scope="module")
def arrows():
    """{module: the modules it imports}"""
    sources = modules()
    return {name: imports(source, sources) - {name} for name, source in sources.items()}


def circle(arrows):
    """The modules of a circle, None if there is none."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_every_import_goes_to_a_lower_floor_or_stays(arrows):
    floor = {name: i for i, name in enumerate(FLOORS)}
    for name, imported in arrows.items():
        for other in imported:
            assert other.split(".")[0] != "tests", f"{name} imports {other}"
            ours, theirs = (floor[module.split(".")[0]] for module in (name, other))
            assert theirs <= ours, f"{name} imports {other}"


def test_there_is_no_circle_among_files(arrows):
    assert circle(arrows) is None


def test_there_is_no_circle_among_folders(arrows):
    """The floors are in order already; this is about folders on them, such as decoding/proof."""
    packages = {name.rpartition(".")[0] for name in arrows} - {"", *FLOORS}

    def folder(name):
        return name if name in packages else name.rpartition(".")[0]

    between = {package: set() for package in packages}
    for name, imported in arrows.items():
        if folder(name) in packages:
            others = {folder(other) for other in imported} & packages
            between[folder(name)] |= others - {folder(name)}
    assert circle(between) is None


def test_only_programs_import_the_performance_code(arrows):
    users = {name for name, imported in arrows.items()
             if any(other.startswith(FAST) for other in imported) and not name.startswith(FAST)}
    assert users == {"weights.fast", "weights.processes.load", "weights.processes.graphs",
                     "decoding.cli.session", "decoding.bench.sweep", "decoding.bench.contestants",
                     "decoding.bench.batch_table", "decoding.bench.parallel_table",
                     "decoding.bench.layout_table"}


def test_an_import_is_found_wherever_it_stands():
    source = """
import torch, model.fast
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from weights import load_model
def f():
    from decoding import sampling
    if True:
        import tests.checks
"""
    known = {"model.fast", "decoding", "decoding.sampling", "weights"}
    assert imports(source, known) == {"model.fast", "decoding.sampling", "tests.checks"}


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) is None
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
