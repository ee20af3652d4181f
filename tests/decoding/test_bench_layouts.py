"""The table of how long a product takes in each layout."""
import pytest
import torch

from decoding.bench import layout_table, layouts
from model.fast import timing


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(layout_table, "SHAPES", ((48, 32), (32, 48)))
    monkeypatch.setattr(layout_table, "TOGETHER", 2**14)
    monkeypatch.setattr(layouts, "bind_threads", lambda: None)
    monkeypatch.setattr(timing, "SECONDS", 0.0)


def test_every_layout_of_every_shape_has_a_row(small, monkeypatch, capsys):
    monkeypatch.setattr(timing, "seconds_waited", lambda: 0)
    assert layouts.main(["--tokens", "1", "5"]) == 0
    what, _, head, line, *rows = capsys.readouterr().out.splitlines()
    assert what.startswith("Microseconds for one product of so many tokens, float32; ")
    assert head == "| weight | layout | 1 token | 5 tokens |" and line == "|---|---|---|---|"
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows]
    names = ["reading", "plain", "rows", "strips of 16", "strips of 32", "slabs"]
    for shape in ("48 × 32", "32 × 48"):
        of_shape = [row for row in cells if row[0] == shape]
        assert [row[1] for row in of_shape if row[1] != "onednn"] == names
        assert all(time.isdigit() for row in of_shape for time in row[2:])


def test_a_busy_machine_has_no_numbers(small, monkeypatch, capsys):
    waited = iter(range(10**6))
    monkeypatch.setattr(timing, "seconds_waited", lambda: next(waited))
    assert layouts.main(["--tokens", "1"]) == 0
    assert "| 48 × 32 | plain | n/a |" in capsys.readouterr().out


def test_all_layouts_compute_the_same():
    generator = torch.Generator().manual_seed(0)
    plain = [torch.nn.Linear(32, 48).requires_grad_(False)]
    x = torch.randn(1, 2, 32, generator=generator)
    for name, (layer,) in layout_table.layers_of(plain).items():
        if name != "reading":
            torch.testing.assert_close(layer(x), plain[0](x))
