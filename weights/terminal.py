"""Text on a terminal: lines broken between words, and never a reason to crash.

Into a file or a pipe everything goes as it is.
"""
import io
import os
import re
import shutil
import sys
import unicodedata
from contextlib import suppress
from typing import TextIO

PIECE = re.compile(r"\n| *[^ \n]+| +")  # a line's end, a word with the space before it
STYLE = re.compile(r"\033\[[\d;]*m")


class Wrap:
    """Where the cursor stands on a terminal, and whether the next word still fits on its line.

    columns: the terminal's width. column: where the text starts.
    """

    def __init__(self, columns: int, column: int = 0) -> None:
        self.columns, self.column = columns, column

    def breaks_before(self, piece: str) -> bool:
        """Move on by a PIECE; return whether a new line must take its leading space's place."""
        if piece == "\n":
            self.column = 0
            return False
        word = piece.lstrip(" ")
        breaks = word != "" and self.column > 0 and self.column + width(piece) > self.columns
        if breaks:
            self.column, piece = 0, word
        self.column += width(piece)
        if self.column > self.columns:  # a word longer than a line goes on in the next
            self.column = (self.column - 1) % self.columns + 1
        return breaks

    def fold(self, text: str) -> str:
        """Return the text with line breaks where it would run over the edge."""
        return "".join("\n" + piece.lstrip(" ") if self.breaks_before(piece) else piece
                       for piece in PIECE.findall(text))


def width(text: str) -> int:
    """Return how many columns a text takes: 0 for styles and accents, 2 for a wide character."""
    return sum(0 if unicodedata.combining(char)
               else 2 if unicodedata.east_asian_width(char) in "WF" else 1
               for char in STYLE.sub("", text))


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal that a stream leads to; None if it is a file or a pipe."""
    if not stream.isatty():
        return None
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        found = 0
    return found or shutil.get_terminal_size().columns or 80  # a new terminal may say 0


def tell(text: str, end: str = "\n") -> None:
    """Print for the reader, on stderr, folded at the terminal's width."""
    limit = columns(sys.stderr)
    folded = text if limit is None else Wrap(limit).fold(text)
    try:
        print(folded, end=end, file=sys.stderr, flush=True)
    except BrokenPipeError:  # nobody reads it any more; the work goes on
        lead_nowhere(sys.stderr)


def one_line(text: str) -> str:
    """Return a text in one line, whatever file names are in it: ? for what cannot be printed."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.splitlines()))


def show_in_place(text: str) -> None:
    """Replace the last line on a terminal, stderr's, by as much of this one as fits.

    "" wipes it away. It is written over with spaces, because not every terminal knows how to erase.
    Into a file or a pipe nothing is written.
    """
    limit = columns(sys.stderr)
    if limit is not None:
        blank = " " * (limit - 1)
        print(f"\r{blank}\r{text[:limit - 1]}", end="", file=sys.stderr, flush=True)


def make_safe() -> None:
    """Keep unprintable characters and closed streams from crashing the program.

    Characters that the console's encoding lacks are printed as ?, and what it cannot read is read
    as U+FFFD; a closed stream leads nowhere.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a notebook's has no encoding
            stream.reconfigure(errors="replace")


def print_no_more() -> None:
    """Send the rest nowhere. Where printing has failed, Python would try again at its exit."""
    lead_nowhere(sys.stdout)
    lead_nowhere(sys.stderr)


def lead_nowhere(stream: TextIO) -> None:
    """Let the system throw away what a stream still prints."""
    with suppress(io.UnsupportedOperation):  # a notebook's has no file of the system's
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
