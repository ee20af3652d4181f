"""The benchmark's folder: damaged files, odd names, small contexts, no matplotlib."""
import json
import sys
from pathlib import Path

import pytest

from decoding.bench import plots
from decoding.bench.costs import read_costs
from decoding.bench.options import parse
from decoding.bench.prompts import read_prompts
from decoding.bench.rows import COLUMNS, read_rows
from decoding.bench.tables import by_prompt, markdown
from decoding.benchmark import main
from tests.commands import write_pair
from tests.decoding.test_benchmark import a_row

TINY = ["--lengths", "4", "--gammas", "2", "--temperatures", "0", "--repeats", "1"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))[:-2]


@pytest.fixture(scope="module")
def measured(pair, tmp_path_factory):
    """A folder of results, and the command that goes on in it."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "p.txt").write_text("Once")
    command = [*pair, "--prompts", str(folder / "p.txt"), *TINY, "--out", str(folder / "r"),
               "--resume"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "write_plots", lambda *_: [])
        assert main(command) == 0
    return folder / "r", command


@pytest.fixture
def resume(measured, capsys, monkeypatch):
    """Go on where one of the folder's files is another; afterwards it is as it was."""
    monkeypatch.setattr(plots, "write_plots", lambda *_: [])
    folder, command = measured
    before = {path: path.read_bytes() for path in folder.iterdir()}

    def resume(name: str, contents: bytes) -> tuple[int, str, str]:
        (folder / name).write_bytes(contents)
        return main(command), *capsys.readouterr()

    yield resume
    for path, contents in before.items():
        path.write_bytes(contents)


SPOILT = {"cut": lambda text: text[:200], "empty": lambda text: "", "{}": lambda text: "{}",
          "[]": lambda text: "[]", "null": lambda text: "null", "nested": lambda text: "[" * 10**5,
          "bytes": lambda text: "\udcff", "another key": lambda text: text.replace("held", "hold"),
          "no settings": lambda text: text.replace('"settings"', '"setting"'),
          "settings": lambda text: text[:text.index('"settings"')] + '"settings": null}',
          "text": lambda text: text.replace('"target": [', '"target": ["x", '),
          "nothing": lambda text: text.replace('"draft": [', '"draft": [0, '),
          "less": lambda text: json.dumps({**json.loads(text), "target": [1.0]}),
          "phases": lambda text: text.replace('"verify"', '"v"'),
          "no phases": lambda text: json.dumps({**json.loads(text), "phases": {}}),
          "no draft": lambda text: json.dumps({**json.loads(text), "draft": ""}),
          "nothing of the draft": lambda text: json.dumps({**json.loads(text), "draft": []}),
          "a draft less": lambda text: json.dumps(
              {**json.loads(text), "draft": json.loads(text)["draft"][:-1]}),
          "no time": lambda text: text.replace('"target": [', '"target": [0.0, ')
                                      .replace('"draft": [', '"draft": [1.0, ')}


@pytest.mark.parametrize("what", SPOILT)
def test_damaged_costs_are_named(what, measured, resume):
    text = SPOILT[what]((measured[0] / "costs.json").read_text(encoding="utf-8"))
    code, out, err = resume("costs.json", text.encode("utf-8", "surrogateescape"))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"{measured[0] / 'costs.json'} has no costs of this benchmark in it" in err


def test_costs_come_back_as_they_were_written(measured):
    path = measured[0] / "costs.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert read_costs(path, written.pop("settings")).__dict__ == written


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("value", ["missing", "x", None, [None], {"a": 1}])
def test_a_row_with_something_else_in_it_is_named(name, value, tmp_path):
    row = a_row(**{name: value})
    if value == "missing":
        del row[name]
    kinds = COLUMNS[name] if isinstance(COLUMNS[name], tuple) else (COLUMNS[name],)
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(a_row())}\n{json.dumps(row)}\n")
    if type(value) in kinds and value != [None] and value != "missing":
        assert read_rows(tmp_path / "rows.jsonl")[1] == row
    else:
        with pytest.raises(ValueError, match=r"rows.jsonl, line 2 is not a row"):
            read_rows(tmp_path / "rows.jsonl")


def test_a_row_without_settings_is_refused_by_the_program(measured, resume):
    rows = (measured[0] / "rows.jsonl").read_text()
    code, out, err = resume("rows.jsonl", rows.replace('"settings"', '"setting"').encode())
    assert (code, out, err.count("\n")) == (2, "", 1) and "line 1 is not a row" in err, err


def test_rows_nested_too_deeply(resume):
    code, _, err = resume("rows.jsonl", b"[" * 10**5 + b"\n")
    assert code == 2 and "rows.jsonl, line 1 is not JSON: it is nested too deeply" in err


def test_without_matplotlib_there_are_numbers_and_one_line(measured, monkeypatch, capsys):
    folder, command = measured
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.delitem(sys.modules, "decoding.bench.plots")
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out[:-1] == (folder / "tables.md").read_text(encoding="utf-8")
    assert err.count("\n") == 1 and "no plots: matplotlib cannot be imported" in err


@pytest.mark.parametrize("context", [6, 16])
def test_a_context_that_is_shorter_than_the_costs_usual_sizes(context, tmp_path, capsys,
                                                              monkeypatch):
    monkeypatch.setattr(plots, "write_plots", lambda *_: [])
    monkeypatch.setattr("tests.commands.N_CTX", context)
    short = write_pair(tmp_path, draft_ctx=context)[:-2]
    (tmp_path / "p.txt").write_text("ab")
    code = main([*short, "--prompts", str(tmp_path / "p.txt"), *TINY, "--out", str(tmp_path / "r")])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert f"\n| {context} | " in out and f"\n| {context + 1} | " not in out  # T(n)


def test_kinds_of_prompts_that_tables_cannot_show_as_they_are():
    shown = by_prompt([a_row(speedup=1.2, kind="a|b\nc\udcff", prompt_tokens=4)]).splitlines()
    assert len(shown) == 3 and r" a\|b c? | 4 |" in shown[2]
    assert markdown({"a": str}, ["|"]) == "| a |\n| --- |\n| \\| |"


def test_a_rate_stands_beside_its_counts():
    row = a_row(speedup=1.2, drafted=1, tested=1, accepted=0)
    assert "| 0/1 = 0.00 |" in by_prompt([row])
    assert "| n/a |" in by_prompt([a_row(speedup=1.2, tested=0, accepted=0)])


def test_prompts_behind_a_byte_order_mark_and_with_other_line_ends(tmp_path):
    (tmp_path / "p.txt").write_bytes(b"\xef\xbb\xbf=== a\r\nabc\r\ndef\r\n=== b\rx")
    assert read_prompts(tmp_path / "p.txt") == {"a": "abc\ndef", "b": "x"}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_prompts_without_an_end(capsys):
    assert main(["--prompts", "/dev/zero"]) == 2
    assert "fit into no context; shorten it" in capsys.readouterr().err


def test_more_runs_than_memory_has_room_for(pair, tmp_path):
    (tmp_path / "p.txt").write_text("Once")
    words = r"--repeats 9{15}, for each of 2 combinations .* needs at least \S+ GB of memory"
    command = [*pair, "--prompts", str(tmp_path / "p.txt"), *TINY, "--repeats", "9" * 15]
    with pytest.raises(ValueError, match=words):
        parse(command)
    parse([*command, "--repeats", "1000"])
