"""Rows of measurements, one JSON object on a line, written as soon as they are measured.

Imports no torch.
"""
import json
from pathlib import Path

from decoding.bench.arms import Row
from weights.output import replacing

ROWS = "rows.jsonl"  # the file of a folder of results that holds them
# The columns that identify a measurement.
IDENTITY = ("gamma", "cache", "way", "kind", "prompt_sha256", "length", "temperature", "repeat")


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
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        with replacing(path) as file:
            file.write_text(whole, encoding="utf-8")
    rows = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict) or not {*IDENTITY, "settings"} <= row.keys():
            raise ValueError(f"{path}, line {number} is not a row of this benchmark")
        rows.append(row)
    return rows


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
