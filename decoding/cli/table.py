"""A table on a terminal: a line for each drafted token, no wider than the terminal or 80 columns.

In colour the draft is orange, the target blue; without colour nothing is lost but the colour.
"""
from collections.abc import Iterable
from typing import NamedTuple

from decoding.cli.styles import RESET, STYLES
from weights.terminal import width

DRAFT, TARGET, VERDICT = 1, 2, 3  # the stages in which a round is shown
WIDEST = 80
WIDTHS = {"token": 0, "number": 5, "bar": 6, "verdict": 10}  # tokens share what is left
LEAST_TOKEN, MOST_TOKEN = 12, 24
GAP = "  "
LABEL = 12  # the width of the words before what is said below the table


class Look(NamedTuple):
    """What a terminal can show: columns, colours, and the character of which bars are made."""

    columns: int = WIDEST
    color: bool = False
    block: str = "█"

    def paint(self, text: str, style: str) -> str:
        """Return the text in one of STYLES, or "" for none; a space around it stays as it is."""
        word = text.strip(" ")
        if not (self.color and style and word):
            return text
        before, after = text.split(word, 1)
        return before + STYLES[style] + word + RESET + after


PLAIN = Look()


class Column(NamedTuple):
    """What is said of every row."""

    kind: str  # one of WIDTHS
    head: str
    cells: list[str]
    styles: list[str]  # one of STYLES for each cell, or ""
    stage: int  # the first in which it is seen


def numbers(head: str, values: Iterable[float | None], style: str, stage: int) -> Column:
    """Return a column of numbers; None is left blank."""
    cells = ["" if value is None else short(value) for value in values]
    return Column("number", head, cells, [style] * len(cells), stage)


def bars(values: Iterable[float | None], style: str, stage: int, look: Look) -> Column:
    """Return a column of bars; a full one is a probability of 1."""
    cells = [look.block * round(WIDTHS["bar"] * (value or 0)) for value in values]
    return Column("bar", "", cells, [style] * len(cells), stage)


def table(columns: list[Column], stage: int, look: Look) -> list[str]:
    """Return the lines of a table: a head, and a line for each row.

    A column of a later stage stays empty. Without room for the bars they are left out; where a line
    is still too short, a row takes two.
    """
    without_bars = [column for column in columns if column.kind != "bar"]
    for some in (columns, without_bars):
        share = room(some, look.columns)
        if share >= LEAST_TOKEN:
            seen = [column for column in some if column.stage <= stage]
            widths = [WIDTHS[column.kind] or min(share, MOST_TOKEN) for column in seen]
            head = [pad(column, column.head, "", n, look) for column, n in zip(seen, widths)]
            rows = ([pad(column, column.cells[i], column.styles[i], n, look)
                     for column, n in zip(seen, widths)] for i in range(len(columns[0].cells)))
            return [GAP.join(line).rstrip() for line in (head, *rows)]
    return narrow([column for column in without_bars if column.stage <= stage], look)


def room(columns: list[Column], limit: int) -> int:
    """Return how wide each column of tokens can be."""
    widths = [WIDTHS[column.kind] for column in columns]
    return (limit - sum(widths) - len(GAP) * (len(widths) - 1)) // widths.count(0)


def pad(column: Column, text: str, style: str, n: int, look: Look) -> str:
    """Return a cell of n columns: numbers on the right, all else on the left."""
    text = shorten(text, n)
    blank, text = " " * (n - width(text)), look.paint(text, style)
    return blank + text if column.kind == "number" else text + blank


def narrow(columns: list[Column], look: Look) -> list[str]:
    """Return two lines for each row: the token and its verdict, then what led to it."""
    lines = []
    for i in range(len(columns[0].cells)):
        said = [(column, look.paint(column.cells[i], column.styles[i])) for column in columns]
        lines += flow([said[0][1], *(cell for column, cell in said if column.kind == "verdict")],
                      look.columns)
        lines += flow([f"{column.head} {cell}" for column, cell in said[1:]
                       if column.kind != "verdict" and cell], look.columns, "  ")
    return lines


def labelled(label: str, items: list[str], look: Look) -> list[str]:
    """Return lines that begin with a word, and go on below what follows it."""
    first, *more = flow(items, look.columns, " " * LABEL)
    return [f"{label:{LABEL}}{first[LABEL:]}", *more]


def flow(items: Iterable[str], limit: int, indent: str = "") -> list[str]:
    """Return lines of as many items as fit. An item is never broken."""
    lines: list[str] = []
    for item in items:
        if lines and width(lines[-1] + GAP + item) <= limit:
            lines[-1] += GAP + item
        else:
            lines.append(indent + item)
    return lines


def shorten(text: str, limit: int) -> str:
    """Return a text that takes no more columns than this; dots stand for what is missing."""
    if width(text) <= limit:
        return text
    while width(text) > limit - 2:
        text = text[:-1]
    return text + ".."


def short(value: float) -> str:
    """Return a number in at most 5 characters or so: three digits after the point, or a power."""
    if value == 0 or 0.001 <= value < 10:
        return f"{value:.3f}"
    return f"{value:.0f}" if 10 <= value < 1000 else f"{value:.0e}"
