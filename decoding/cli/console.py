"""Where a run's words go: the text to stdout, all else to stderr, colours only where they are seen.

Imports almost nothing, so that `--help`, refusals and Ctrl-C are answered at once.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from weights.terminal import Wrap, columns, show_in_place, tell

if TYPE_CHECKING:
    import argparse

    from decoding.result import Round


class Console:
    def __init__(self, options: argparse.Namespace) -> None:
        self.quiet = options.quiet
        self.out = None if options.json else sys.stdout  # where generated text is streamed to
        # Whether the text is seen, between the lines that are said.
        self.on_screen = self.out is not None and self.out.isatty()
        self.color = (options.mode != "baseline" and wants_color(options.color)
                      and not options.json)
        self.mid_line = False  # the cursor stands after a line that has not ended
        # How the text is folded on a terminal; a trace gives each round's text a line of its own.
        limit = columns(sys.stdout) if self.on_screen and not options.trace else None
        self.wrap = None if limit is None else Wrap(limit)

    def say(self, line: str, end: str = "\n") -> None:
        """Print a line for the reader, on stderr, and on a terminal never right after the text."""
        if not self.quiet:
            tell("\n" * self.mid_line + line, end)
            self.mid_line = end != "\n"

    def note(self, message: Warning | str) -> None:
        """Print a warning in one plain line. Python would print two, with a file's name."""
        self.say("note: " + " ".join(str(message).split()))

    def echo(self, prompt: str) -> None:
        """Print the prompt, with the text right after it where both are seen."""
        if self.wrap is not None and sys.stderr.isatty() and not self.quiet:
            prompt = self.wrap.fold(prompt)  # so that it knows where the text begins
        self.say(prompt, end="" if self.on_screen else "\n")

    def end_text(self) -> None:
        """Start a new line after the text, on a terminal only: a file gets the text and no more."""
        if self.on_screen:
            print(file=self.out, flush=True)
            self.mid_line = False

    def stepwise(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """Yield the same rounds, each computed only when Enter has been pressed.

        Once stdin has ended, all that are left.
        """
        rounds, waiting = iter(rounds), True
        round: Round | None = None
        while round is None or round.finish_reason is None:
            if waiting:
                self.say("[Enter] ", end="")
                waiting = sys.stdin.readline() != ""
                # On a terminal the key itself has ended the line.
                self.mid_line = not (waiting and sys.stdin.isatty())
            round = next(rounds, None)
            if round is None:
                return
            yield round

    def counted(self, rounds: Iterable[Round], what: str, total: int) -> Iterator[Round]:
        """Yield the same rounds, with a line on the terminal that counts them."""
        for number, round in enumerate(rounds, start=1):
            if not self.quiet:
                show_in_place(f"{what}: {number} of {total} tokens")
            yield round
        if not self.quiet:
            show_in_place("")


def wants_color(choice: str) -> bool:
    """Return whether the text is coloured, for this --color."""
    if choice == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return sys.stdout.isatty() and not plain
    return choice == "always"
