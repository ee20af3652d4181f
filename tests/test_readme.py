"""What README.md says about the code is true of the code."""
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_line_counts_and_links():
    counts = re.findall(r"\| \[[^]]+\]\(([^)]+\.py)\) \| (\d+) \|", README)
    assert len(counts) > 10
    for file, lines in counts:
        assert len((ROOT / file).read_text(encoding="utf-8").splitlines()) == int(lines), file
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_notebook_is_listed():
    for notebook in (ROOT / "tutorials").glob("[0-9]*.ipynb"):
        assert f"tutorials/{notebook.name}" in README


def test_the_example_runs(capsys):
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1), {})  # noqa: S102 - it is ours
    assert capsys.readouterr().out.strip()


def test_the_three_pieces_fit_on_a_screen():
    for file, start, end in (("baseline.py", "def _rounds", "def check_request"), ("speculative.py", "def _rounds", "def usual_rule"),
                             ("acceptance.py", "def accept_greedy", "def leading")):
        source = (ROOT / "decoding" / file).read_text(encoding="utf-8")
        piece = source[source.index(start) : source.index(end)].rstrip()
        assert len(piece.splitlines()) <= 45, file


def test_the_commands_are_those_that_ci_runs():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in re.findall(r"^pip install -r (\S+) && (.+)$", README, re.MULTILINE):
        assert f"-r {command[0]} && {command[1]}" in script
