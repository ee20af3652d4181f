"""`python -m decoding.bench.parallel`: what it expects, what it prints, what it refuses."""
import re

import pytest

from decoding.bench.parallel import main
from decoding.bench.parallel_table import expected


def test_the_formula():
    """30 GB on each of two H100s, and 120 sums of 10 µs."""
    assert expected(30e9, 3.35e12, 60, 10e-6) == pytest.approx(0.010155, abs=1e-6)
    assert expected(60e9, 3.35e12, 60, 0) == pytest.approx(0.017910, abs=1e-6)


def test_the_arithmetic_says_that_it_is_one(capsys):
    assert main(["--arithmetic"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Arithmetic, not measured")
    assert "| 30B, 60 GB, 60 layers | 18 (30) | 10 (16) | 5.7 (8.7) | 3.4 (4.9) |" in out
    assert "H100 134 MB" in out


@pytest.mark.slow
def test_the_table(capsys, pair):
    assert main(["--target", pair[1], "--layout", "plain", "--processes", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()[-2:]
    number = r"[\d.]+"
    for line, name in zip(lines, ("not split", "2"), strict=True):
        assert re.fullmatch(rf"\| {name} \| plain \| {number}, {number} \| {number}, {number} "
                            rf"\| {number} \| \d+ / \d+ \| {number} \| {number} \|", line), line
    assert "| 0 / 0 |" in lines[0] and "| 0 / 0 |" not in lines[1]


@pytest.mark.parametrize("arguments, reason", [
    (["--processes", "0"], "whole number of at least 1"), (["--target", "tales"], "unknown model"),
    (["--device", "cuda", "--dtype", "float64"], "--dtype")])
def test_refusals(capsys, arguments, reason):
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1) and reason in err
