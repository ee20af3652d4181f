"""Where a run's words go: the text to stdout, everything else to stderr, colours only where they are seen.

Imports almost nothing, so that `--help`, refusals and Ctrl-C are answered at once.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from decoding.result import Round


class Console:
    def __init__(self, options: argparse.Namespace) -> None:
        self.quiet = options.quiet
        self.out = None if options.json else sys.stdout  # where generated text is streamed to
        self.on_screen = self.out is not None and self.out.isatty()  # the text, between the lines that are said
        self.color = options.mode != "baseline" and wants_color(options.color) and not options.json
        self.mid_line = False  # the cursor stands behind a line that has not ended

    def say(self, line: str, end: str = "\n") -> None:
        """A line for the reader, on stderr, and on a terminal never behind the text."""
        if not self.quiet:
            print("\n" * self.mid_line + line, end=end, file=sys.stderr, flush=True)
            self.mid_line = end != "\n"

    def note(self, message: Warning | str, *_) -> None:
        """A warning in one plain line; takes the place of warnings.showwarning, which prints two with a file's name."""
        self.say("note: " + " ".join(str(message).split()))

    def echo(self, prompt: str) -> None:
        """The prompt, with the text right behind it where both are seen."""
        self.say(prompt, end="" if self.on_screen else "\n")

    def end_text(self) -> None:
        """On a terminal, whatever follows the text starts on a new line. A file or a pipe gets the text and no more."""
        if self.on_screen:
            print(file=self.out, flush=True)
            self.mid_line = False

    def stepwise(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """The same rounds, each computed only when Enter has been pressed; all that are left once stdin has ended."""
        rounds, waiting, round = iter(rounds), True, None
        while round is None or round.finish_reason is None:
            if waiting:
                self.say("[Enter] ", end="")
                waiting = sys.stdin.readline() != ""
                self.mid_line = not (waiting and sys.stdin.isatty())  # there the key itself has ended the line
            round = next(rounds, None)
            if round is None:
                return
            yield round

    def counted(self, rounds: Iterable[Round], what: str, total: int) -> Iterator[Round]:
        """The same rounds, with a line on the terminal that counts them."""
        visible = sys.stderr.isatty() and not self.quiet
        for number, round in enumerate(rounds, start=1):
            if visible:
                print(f"\r{what}: {number} of {total} tokens", end="", file=sys.stderr, flush=True)
            yield round
        if visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def make_safe() -> None:
    """Characters that the console's encoding lacks are printed as ?, and a stream that was closed leads nowhere: neither
    ends the program."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's has no encoding
            stream.reconfigure(errors="replace")


def print_no_more() -> None:
    """Send the rest nowhere. Where printing has failed, Python would try again at its exit, and complain."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
