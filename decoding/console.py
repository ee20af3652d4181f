"""Where a run's words go: the text to stdout, everything else to stderr, colours only where they are seen.

Imports no torch, for the sake of `--help` and of the refusals.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decoding.result import Round


class Console:
    def __init__(self, options: argparse.Namespace) -> None:
        self.quiet = options.quiet
        self.out = None if options.json else sys.stdout  # where generated text is streamed to
        self.color = options.mode != "baseline" and wants_color(options.color) and not options.json

    def say(self, line: str, end: str = "\n") -> None:
        """A line for the reader, on stderr."""
        if not self.quiet:
            print(line, end=end, file=sys.stderr, flush=True)

    def end_text(self) -> None:
        """On a terminal, whatever follows the text starts on a new line. A file or a pipe gets the text and no more."""
        if self.out is not None and self.out.isatty():
            print(file=self.out, flush=True)

    def stepwise(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """The same rounds, each computed only when Enter has been pressed; all that are left once stdin has ended."""
        rounds, waiting, round = iter(rounds), True, None
        while round is None or round.finish_reason is None:
            if waiting:
                self.say("[Enter] ", end="")
                waiting = sys.stdin.readline() != ""
            round = next(rounds, None)
            if round is None:
                return
            yield round

    def counted(self, rounds: Iterable[Round], what: str, total: int) -> Iterator[Round]:
        """The same rounds, with a line on the terminal that counts them."""
        visible = sys.stderr.isatty()
        for number, round in enumerate(rounds, start=1):
            if visible:
                self.say(f"\r{what}: {number} of {total} tokens", end="")
            yield round
        if visible:
            self.say("\r\033[K", end="")


def wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return choice == "always"


def make_safe() -> None:
    """Characters that the console's encoding lacks are printed as ?, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
