"""The notebooks work and read well everywhere: alone in a folder, without styles or pictures."""
import os
import re
import shutil
import subprocess
import sys

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from nbclient import NotebookClient

from decoding import Generation, Round
from decoding.picture import draw_run
from tests.tutorials.test_tutorials import NOTEBOOKS, ROOT, code_cells, every_notebook, read
from tutorials import coloring, first_cell

PAGES = [ROOT / "tutorials" / name for name in ("README.md", first_cell.LAST_PAGE)]


# The first cell

@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Run the first cell in an empty folder; return the commands it ran.

    clones: whether `git clone` succeeds. missing: a package that is not installed.
    """
    def run_cell(clones=True, missing=None):
        commands = []

        def run(command, **_):
            commands.append(command)
            if command[0] == "git" and clones:
                (tmp_path / "speculative" / "decoding").mkdir(parents=True)
                (tmp_path / "speculative" / "decoding" / "minimal.py").touch()

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", sys.path.copy())
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else 1)
        exec(first_cell.FIND, {})
        return commands

    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
        monkeypatch.delenv(name, raising=False)
    return run_cell


@pytest.mark.parametrize("place", ["COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"])
def test_the_first_cell_fetches_the_project_and_leaves_installed_packages_alone(
        place, alone, monkeypatch, tmp_path):
    monkeypatch.setenv(place, "1")
    clone, pip = alone(missing="tiktoken")
    assert clone == ["git", "clone", "--depth", "1", first_cell.ADDRESS, "speculative"]
    assert pip[1:] == ["-m", "pip", "install", "--quiet", "tiktoken"]  # no torch, no upgrade
    assert sys.path[0] == str(tmp_path / "speculative")


def test_the_first_cell_fetches_nothing_twice(alone, monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "1")
    assert len(alone()) == 1 and alone() == []


@pytest.mark.parametrize("place", ["COLAB_RELEASE_TAG", "NOWHERE"])
def test_without_the_project_the_first_cell_says_what_to_do(place, alone, monkeypatch, capsys):
    monkeypatch.setenv(place, "1")
    with pytest.raises(SystemExit) as stop:
        alone(clones=False)
    message = str(stop.value)
    assert first_cell.ADDRESS in message and "open this notebook" in message and "\n" not in message


@pytest.mark.parametrize("folder", ["", "tutorials", "tutorials/exercises"])
def test_in_the_projects_folders_the_first_cell_finds_it(folder, monkeypatch):
    monkeypatch.chdir(ROOT / folder)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(subprocess, "run", None)
    exec(first_cell.FIND, {})
    assert sys.path == [str(ROOT)]


@pytest.mark.slow
def test_a_downloaded_notebook_runs_in_an_empty_folder_where_it_can_clone(tmp_path):
    published, empty = tmp_path / "published", tmp_path / "empty"
    for folder in ("model", "weights", "decoding", "tutorials"):
        shutil.copytree(ROOT / folder, published / folder,
                        ignore=shutil.ignore_patterns("__pycache__", "*.ipynb"))
    git = ["git", "-C", str(published), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    empty.mkdir()
    notebook = read(NOTEBOOKS[2])
    assert first_cell.ADDRESS in code_cells(notebook)[0].source
    code_cells(notebook)[0].source = first_cell.FIND.replace(first_cell.ADDRESS,
                                                             published.as_uri())
    notebook.cells = code_cells(notebook)[:4]  # these use what was found; all are run elsewhere
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLAB_RELEASE_TAG": "1"}
    for name in ("MPLBACKEND", "PYTHONPATH"):
        environment.pop(name, None)
    client = NotebookClient(notebook, timeout=600, startup_timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": empty}})
    client.execute(env=environment)
    assert (empty / "speculative" / "decoding").is_dir()


@every_notebook
def test_a_notebook_has_the_first_cell_and_the_links(path):
    i = NOTEBOOKS.index(path)
    around = [None, *NOTEBOOKS, None]
    shared = first_cell.shared_cells(path, around[i], around[i + 2])
    cells = {cell.id: cell for cell in read(path).cells}
    for name, cell in shared.items():
        assert cells[name].source == "".join(cell["source"]), "run python -m tutorials.first_cell"
    assert code_cells(read(path))[0].id == "find-project"
    assert list(cells)[1] == "links" and list(cells)[-1] == "links-end"


# Links

def links(text):
    """The files that a text links to, without sections."""
    return [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)
            if "://" not in link]


def test_writing_the_shared_cells_again_changes_nothing(tmp_path, monkeypatch):
    for path in NOTEBOOKS:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(first_cell, "FOLDER", tmp_path)
    first_cell.main()
    for path in NOTEBOOKS:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_links_lead_somewhere_and_the_contents_name_every_notebook():
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    for path in NOTEBOOKS:
        texts[path.name] = "\n".join(cell.source for cell in read(path).cells
                                     if cell.cell_type == "markdown")
    for name, text in texts.items():
        for link in links(text):
            assert (ROOT / "tutorials" / link).exists(), f"{name}: {link}"
    assert {path.name for path in NOTEBOOKS} | {first_cell.LAST_PAGE} <= set(
        links(texts["README.md"]))


# Marks and pictures

def test_marks_of_a_text_survive_where_styles_are_stripped():
    from weights import load_tokenizer

    tokenizer = load_tokenizer("tales-large")
    a, b, c, d, e = tokenizer.encode("the king had three sons")
    rounds = [Round([a, b], 1, c, "correction", (0, 0), None, None, 0.0),
              Round([d], 1, e, "bonus", (0, 0), None, None, 0.0)]
    page = coloring.colored(rounds, tokenizer, "Once", rejected=True).data
    assert re.sub(r" style='[^']*'", "", page).startswith(
        "<p><i>Once</i><span>the</span><del> king</del><b> had</b><span> three</span>"
        "<ins> sons</ins></p>")
    tags = [tag for tag, _ in coloring.MARKS.values()]
    assert len(set(tags)) == len(tags) and set(tags) <= {"span", "b", "ins", "del"}  # GitHub's
    assert "king" not in coloring.colored(rounds, tokenizer, "Once").data


@every_notebook
def test_every_picture_has_words_for_who_cannot_see_it(path):
    for cell in code_cells(read(path)):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                alt = output.metadata.get("image/png", {}).get("alt", "")
                assert len(alt) > 40, f"{cell.id}: show it by drawing.show(figure, words)"


@every_notebook
def test_hidden_code_is_hidden_in_jupyterlab_too(path):
    for cell in code_cells(read(path)):
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert hidden == ("hide-input" in cell.metadata.get("tags", [])), cell.id


@pytest.mark.parametrize("gamma", [1, 4, 8, 16])
def test_a_rejected_token_and_its_correction_do_not_overlap(gamma):
    drafted = list(range(gamma))
    rounds = [Round(drafted, gamma - 1, 7, "correction", (0, 0), None, None, 0.01)]
    rounds += [Round(drafted, gamma, 7, "bonus", (0, 0), None, None, 0.01)]
    figure = draw_run(Generation(rounds, gamma))
    FigureCanvasAgg(figure).draw()
    points = {found.get_label(): found for found in figure.axes[0].collections}
    tips = {}
    for name in ("rejected", "correction"):
        marker = points[name]
        y = figure.axes[0].transData.transform(marker.get_offsets())[0, 1]
        half = marker.get_sizes()[0] ** 0.5 / 2 * figure.dpi / 72
        tips[name] = y - half, y + half
    assert tips["rejected"][1] < tips["correction"][0], tips
