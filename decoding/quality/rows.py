"""Rows of an evaluation, one JSON object on a line: a problem's sample, by both loops.

    problem, sample   which, and its prompt's hash, prompt_sha256
    plain, speculative   text, ids_sha256, finish_reason, new_tokens, rounds, drafted, tested,
                         accepted, seconds, and scores, null where they are not computed yet
    difference        of a greedy run: null if the ids are the same, else what was found about them
    settings          of the run

A row is written as soon as both loops are done, so that a run can be interrupted and taken up.
"""
import json
from pathlib import Path
from types import NoneType
from typing import Any

from weights.files import parse_json, reading
from weights.output import replacing

Row = dict[str, Any]
ROWS = "answers.jsonl"  # the file of a folder of results that holds them
ARMS = ("plain", "speculative")
CHOSEN = ("layout", "head")  # by the clock, if --layout does not say; a text is as good by any
NUMBER = (int, float)
# What is read again, and its type.
COLUMNS: dict[str, Any] = {"problem": str, "sample": int, "prompt_sha256": str, "settings": dict,
                           "difference": (dict, NoneType), "plain": dict, "speculative": dict}
OF_AN_ARM: dict[str, Any] = {
    **dict.fromkeys(("new_tokens", "rounds", "drafted", "tested", "accepted"), int),
    "text": str, "seconds": NUMBER, "scores": (dict, NoneType)}
OF_A_DIFFERENCE: dict[str, Any] = {
    **dict.fromkeys(("gap", "limit"), (*NUMBER, NoneType)), "index": int, "verdict": str}


class Rows(list[Row]):
    """A list of rows that is also a file, if there is one.

    Raises ValueError if the file has rows of other settings, or lines that are no rows.
    """

    def __init__(self, path: Path | None, settings: Row) -> None:
        self.path = path
        super().__init__(read_rows(path) if path is not None and path.exists() else [])
        for row in self:
            for name in sorted((settings.keys() | row["settings"].keys()).difference(CHOSEN)):
                old, new = row["settings"].get(name), settings.get(name)
                if old != new:
                    raise ValueError(f"{path} was made with {name} {old!r}, and now it is {new!r}; "
                                     "choose another --out")
        self.done = {(row["problem"], row["sample"]): row for row in self}

    def append(self, row: Row) -> None:
        """Add a row, to the file first."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(to_line(row))
        super().append(row)

    def rewrite(self) -> None:
        """Write the whole file anew, after rows have been given their scores."""
        if self.path is not None:
            with replacing(self.path) as file:
                file.write_text("".join(map(to_line, self)), encoding="utf-8")


def to_line(row: Row) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file. A last line that was cut off is removed from it."""
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
            raise ValueError(f"{path}, line {number} is not a row of an evaluation")
        rows.append(row)
    return rows


def is_row(found: Any) -> bool:
    """Return whether something that was read is a row of an evaluation."""
    if not has(found, COLUMNS) or not all(has(found[arm], OF_AN_ARM) for arm in ARMS):
        return False
    difference, scores = found["difference"], [found[arm]["scores"] for arm in ARMS]
    if difference is not None and not (
            has(difference, OF_A_DIFFERENCE)
            and (difference["limit"] is not None or difference["verdict"] != "near-tie")):
        return False
    return scores == [None, None] or (
        None not in scores and scores[0].keys() == scores[1].keys()
        and all(isinstance(score, NUMBER) for both in scores for score in both.values()))


def has(found: Any, columns: dict[str, Any]) -> bool:
    """Return whether this is an object that has these columns, and their types."""
    return isinstance(found, dict) and columns.keys() <= found.keys() and all(
        isinstance(found[name], kind) for name, kind in columns.items())
