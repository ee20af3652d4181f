"""Rows of measurements, one JSON object on a line, written as soon as they are measured.

Imports no torch.
"""
import json
from pathlib import Path
from types import NoneType
from typing import Any

from decoding.bench.arms import Row
from weights.files import parse_json, reading
from weights.output import replacing

ROWS = "rows.jsonl"  # the file of a folder of results that holds them
# The columns that identify a measurement.
IDENTITY = ("gamma", "cache", "way", "kind", "prompt_sha256", "length", "temperature", "repeat")
# What the tables and plots read: the type of each column.
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("cache", "way", "kind", "prompt_sha256"), str),
    **dict.fromkeys(("gamma", "length", "repeat", "prompt_tokens", "rounds", "drafted", "tested",
                     "accepted"), int),
    **dict.fromkeys(("tested_by_position", "accepted_by_position"), list),
    **dict.fromkeys(("tokens_per_second", "baseline_tokens_per_second", "speedup", "alpha",
                     "tokens_per_round", "full_rounds_tokens_per_second", "full_rounds_speedup",
                     "predicted_speedup", "predicted_speedup_paper", "latency_reduction_percent"),
                    (int, float, NoneType)),
    "temperature": (int, float), "checked": bool, "first_difference": (dict, NoneType),
    "settings": dict,
}


class Rows(list[Row]):
    """A list of rows that is also a file: a row added to the list is added to the file."""

    def __init__(self, path: Path, settings: Row) -> None:
        """Read the rows of an earlier run. Raises ValueError if its settings were others."""
        super().__init__(read_rows(path) if path.exists() else [])
        self.path = path
        check_settings(path, self, settings)

    def append(self, row: Row) -> None:
        """Add a row, to the file first."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        super().append(row)


def is_measured(rows: list[Row], identity: Row) -> bool:
    """Return whether there is a row of this identity."""
    return any(all(row[name] == identity[name] for name in IDENTITY) for row in rows)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file.

    A last line that was cut off while it was written is removed from the file. Raises ValueError
    for a line that is no row.
    """
    with reading(path):
        contents = path.read_bytes()
    whole = contents[: contents.rfind(b"\n") + 1]
    if whole != contents:
        with replacing(path) as file:
            file.write_bytes(whole)
    rows = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        if not is_row(row):
            raise ValueError(f"{path}, line {number} is not a row of this benchmark")
        rows.append(row)
    return rows


def is_row(found: Any) -> bool:
    """Return whether something that was read is a row of this benchmark."""
    if not isinstance(found, dict) or not COLUMNS.keys() <= found.keys():
        return False
    if not all(isinstance(found[name], kind) for name, kind in COLUMNS.items()):
        return False
    return all(len(counts) == found["gamma"] and all(isinstance(count, int) for count in counts)
               for counts in (found["tested_by_position"], found["accepted_by_position"]))


def check_settings(path: Path, rows: list[Row], settings: Row) -> None:
    """Raise ValueError, with the first difference, for rows measured under other settings.

    Such rows must not meet in one table.
    """
    for row in rows:
        for name in sorted(settings.keys() | row["settings"].keys()):
            old, new = row["settings"].get(name), settings.get(name)
            if old != new:
                raise ValueError(f"{path} was measured with {name} {old!r}, and now it is {new!r}; "
                                 "choose another --out")
