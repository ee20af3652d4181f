"""--compile in the benchmark, on a CPU: the same fixed shapes, which nothing records."""
import pytest

from decoding.bench import sweep
from decoding.bench.rows import read_rows
from decoding.benchmark import main
from model.fast.cuda_graphs import Graphed


@pytest.fixture
def graphed(monkeypatch):
    """The sizes of every pass that was replayed."""
    sizes, forward = [], Graphed.forward
    monkeypatch.setattr(sweep, "check_graphs", lambda device: None)
    monkeypatch.setattr(Graphed, "forward", lambda self, tokens, *more, **named: (
        sizes.append(tokens.shape[1]), forward(self, tokens, *more, **named))[1])
    return sizes


def test_arms_with_a_cache_are_replayed(pair, tmp_path, graphed):
    (tmp_path / "p.txt").write_text("Once upon a time")
    given = [*pair[:4], "--gammas", "2", "4", "--lengths", "12", "--temperatures", "0",
             "--repeats", "1", "--prompts", str(tmp_path / "p.txt"), "--compile",
             "--out", str(tmp_path / "x")]
    assert main(given) == 0
    rows = read_rows(tmp_path / "x/rows.jsonl")
    assert all(row["settings"]["compile"] for row in rows)
    assert all(row["first_difference"] is None for row in rows)
    assert {1, 3, 5} <= {*graphed}


def test_what_would_run_plain_is_refused(pair, tmp_path, capsys):
    (tmp_path / "p.txt").write_text("Once upon a time")
    given = [*pair[:4], "--gammas", "2", "--lengths", "12", "--prompts", str(tmp_path / "p.txt"),
             "--compile", "--out", str(tmp_path / "x")]
    assert main([*given, "--trees", "2x2"]) == 2
    assert "--compile does nothing with --trees" in capsys.readouterr().err
    assert main([*given, "--device", "cpu"]) == 2
    assert "CUDA graphs" in capsys.readouterr().err
