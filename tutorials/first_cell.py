"""Writes what all notebooks share: the cell that finds the project, links, and badges.

    python -m tutorials.first_cell

A notebook that was downloaded alone has nothing to import from, so each holds a copy. The originals
are here, and the project's address is written nowhere else.
"""
import json
from pathlib import Path

ADDRESS = "https://github.com/OWNER/REPOSITORY"  # where the project is published
FOLDER = Path(__file__).parent
LAST_PAGE = "where_to_go_on.md"

FIND = '''\
# Finds the project; on Colab and Kaggle, fetches it. What is installed stays as it is.
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ADDRESS = "{address}"
PACKAGES = ["torch", "tiktoken", "safetensors", "huggingface_hub", "matplotlib"]
folders = [Path.cwd(), *Path.cwd().parents, Path.cwd() / "speculative"]


def project():
    return next((folder for folder in folders if (folder / "decoding/minimal.py").exists()), None)


if project() is None and {"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"} & set(os.environ):
    subprocess.run(["git", "clone", "--depth", "1", ADDRESS, "speculative"])
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing])
if project() is None:
    raise SystemExit("The project is not here: run `git clone " + ADDRESS + "` (or correct the "
                     "address) and open this notebook in the folder tutorials of what you get.")
sys.path.insert(0, str(project()))'''.replace("{address}", ADDRESS)


def main() -> None:
    """Write the shared cells into every notebook. What else is in it stays as it is."""
    notebooks = sorted(FOLDER.glob("[0-9]*.ipynb"))
    for i, path in enumerate(notebooks):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        before = notebooks[i - 1] if i > 0 else None
        after = notebooks[i + 1] if i + 1 < len(notebooks) else None
        shared = shared_cells(path, before, after)
        own = [cell for cell in notebook["cells"] if cell["id"] not in shared]
        old = {cell["id"]: cell for cell in notebook["cells"]}
        links, find, end = (old.get(name, {}) | cell for name, cell in shared.items())
        find |= {name: find.get(name, new) for name, new in
                 (("execution_count", None), ("outputs", []))}
        notebook["cells"] = [own[0], links, find, *own[1:], end]
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def shared_cells(path: Path, before: Path | None, after: Path | None) -> dict[str, dict]:
    """Return {id: cell} of what a notebook shares with the others, in the order they stand in it.

    before, after: its neighbours.
    """
    links = navigation(before, after)
    return {
        "links": markdown("links", f"{links}\n\n{badges(path)}"),
        "find-project": {"cell_type": "code", "id": "find-project",
                         "metadata": {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]},
                         "source": FIND},
        "links-end": markdown("links-end", links)}


def markdown(name: str, text: str) -> dict:
    """Return a cell of text."""
    return {"cell_type": "markdown", "id": name, "metadata": {},
            "source": text}


def navigation(before: Path | None, after: Path | None) -> str:
    """Return the line "previous | contents | next". After the last notebook comes the last page."""
    parts = [] if before is None else [f"previous: [{title(before)}]({before.name})"]
    next_page = (f"[{title(after)}]({after.name})" if after is not None
                 else f"[Where to go on]({LAST_PAGE})")
    return " | ".join([*parts, "[contents](README.md)", f"next: {next_page}"])


def title(path: Path) -> str:
    """Return the first heading of a notebook."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(first).splitlines()[0].removeprefix("# ")


def badges(path: Path) -> str:
    """Return the links that open a notebook in Colab and in Kaggle."""
    page = f"{ADDRESS}/blob/main/tutorials/{path.name}"
    colab = page.replace("https://github.com", "https://colab.research.google.com/github")
    kaggle = f"https://kaggle.com/kernels/welcome?src={page}"
    return (f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})\n"
            f"[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]({kaggle})")


if __name__ == "__main__":
    main()
