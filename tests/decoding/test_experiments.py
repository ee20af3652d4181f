"""Experiments by name: the files are read, run with models that stand in, and joined."""
import shlex
from pathlib import Path

import pytest

from decoding.bench.join import main as join
from decoding.bench.options import make_parser
from decoding.bench.rows import read_rows
from decoding.bench.stand_in import KINDS, write_stand_in
from decoding.benchmark import main as benchmark
from decoding.evaluate import main as evaluate
from decoding.quality.options import make_parser as make_evaluate_parser
from model.families import OPT, GPTNeo, GPTNeoX, Llama
from weights import load_model, load_tokenizer
from weights.registry import PUBLISHED

FOLDER = Path(__file__).parents[2] / "decoding/experiments"
FILES = sorted(FOLDER.glob("*.args"))
OF_BENCHMARK = [path for path in FILES if "--task" not in path.read_text()]
OF_EVALUATE = [path for path in FILES if path not in OF_BENCHMARK]
SHORT = ["--stand-in", "--gammas", "2", "--temperatures", "0"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_read_and_names_known_models(path):
    parser = make_parser() if path in OF_BENCHMARK else make_evaluate_parser()
    options = parser.parse_args([f"@{path}"])
    for name in (options.target, options.draft):
        assert name in PUBLISHED or name.startswith("gpt2")
    assert str(options.out) == f"results/{path.stem}"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert parser.parse_args(shlex.split("\n".join(lines), comments=True)) == options
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("path", OF_BENCHMARK, ids=lambda path: path.stem)
def test_a_benchmark_runs_with_models_that_stand_in(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(FOLDER.parents[1])
    given = [f"@{path}", *SHORT, "--out", str(tmp_path / "x")]
    assert benchmark(given) == 0
    rows = read_rows(tmp_path / "x-stand-in/rows.jsonl")
    assert {row["cache"] for row in rows} == {"both", "target", "draft", "none"}
    assert all(row["checked"] for row in rows if row["gamma"]) and len(rows) >= 18
    assert "nothing here is a result" in capsys.readouterr().err


@pytest.mark.parametrize("path", OF_EVALUATE, ids=lambda path: path.stem)
def test_a_task_runs_with_models_that_stand_in(path, tmp_path, capsys):
    assert evaluate([f"@{path}", "--stand-in", "--out", str(tmp_path / "x")]) == 0
    assert len((tmp_path / "x-stand-in/answers.jsonl").read_text().splitlines()) == 2
    assert "nothing here is a result" in capsys.readouterr().err


def test_sampled_runs_and_every_gamma(tmp_path, monkeypatch):
    monkeypatch.chdir(FOLDER.parents[1])
    path = FOLDER / "pythia-2.8b-by-410m.args"
    given = [f"@{path}", "--stand-in", "--out", str(tmp_path / "x")]
    assert benchmark(given) == 0
    rows = read_rows(tmp_path / "x-stand-in/rows.jsonl")
    assert {(row["gamma"], row["temperature"]) for row in rows} == {
        (gamma, temperature) for gamma in (0, 1, 2, 4, 8) for temperature in (0, 1)}


def test_results_are_joined(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(FOLDER.parents[1])
    for name in ("pythia-1.4b-by-70m", "llama-3.2-3b"):
        assert benchmark([f"@{FOLDER / name}.args", *SHORT, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert join([str(tmp_path / f"{name}-stand-in")
                 for name in ("pythia-1.4b-by-70m", "llama-3.2-3b")]) == 0
    head, rule, *lines = capsys.readouterr().out.splitlines()
    assert "acceptance rate" in head and "speed-up" in head and set(rule) == set("| -")
    assert ["pythia" in line for line in lines] == [True] * 3 + [False] * 3
    assert join([str(tmp_path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "has no results" in line


@pytest.mark.parametrize("kind, family", [("pythia", GPTNeoX), ("opt", OPT), ("gpt-neo", GPTNeo),
                                          ("Llama", Llama), ("deepseek", Llama)])
def test_a_stand_in_is_of_the_same_family(tmp_path, kind, family):
    names = [name for name in PUBLISHED if f"/{kind}" in name]
    write_stand_in(names[0], tmp_path)
    with pytest.raises(ValueError, match=r"no stand-in is known for \./opt/mine"):
        write_stand_in("./opt/mine", tmp_path)
    assert type(load_model(tmp_path)) is family and load_tokenizer(tmp_path).n_vocab == 257
    assert names and kind in KINDS


@pytest.mark.parametrize("arguments, words", [
    (["@missing.args"], "missing.args"), (["--stand-in", "--tune"], "--stand-in does nothing")])
def test_what_makes_no_sense_is_refused(arguments, words, capsys):
    try:
        code = benchmark(arguments)
    except SystemExit as exit:
        code = exit.code
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2 and words in line
