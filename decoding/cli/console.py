"""Where a run's words go: the text to stdout, all else to stderr, colours only where they are seen.

Imports almost nothing, so that `--help`, refusals and Ctrl-C are answered at once.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from decoding.cli.models import LOOKUP
from decoding.cli.table import DRAFT, TARGET, VERDICT, WIDEST, Look
from weights.terminal import Wrap, columns, show_in_place, tell

if TYPE_CHECKING:
    import argparse

    from decoding.result import Round
    from weights.vocabulary import Tokenizer


class Console:
    def __init__(self, options: argparse.Namespace) -> None:
        self.quiet = options.quiet
        self.out = None if options.json else sys.stdout  # where generated text is streamed to
        # Whether the text is seen, between the lines that are said.
        self.on_screen = self.out is not None and self.out.isatty()
        self.color = (options.mode != "baseline" and wants_color(options.color, sys.stdout)
                      and not options.json)
        self.color_tables = not options.json and wants_color(options.color, sys.stderr)
        self.mid_line = False  # the cursor stands after a line that has not ended
        self.waits = options.step  # for Enter, until stdin has ended
        limit = columns(sys.stdout) if self.on_screen else None  # where the text is folded
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
        rounds = iter(rounds)
        round: Round | None = None
        while round is None or round.finish_reason is None:
            self.wait("draft; Ctrl-C: stop")
            round = next(rounds, None)
            if round is None:
                return
            yield round

    def wait(self, what: str) -> None:
        """Wait for Enter, unless stdin has ended. It brings what is said here.

        On a terminal an Enter that was pressed before counts for nothing: a second one, while
        something is computed, would skip a stage.
        """
        if self.waits:
            forget_keys()
            self.say(f"[Enter: {what}] ", end="")
            self.waits = sys.stdin.readline() != ""
            # On a terminal the key itself has ended the line.
            self.mid_line = not (self.waits and sys.stdin.isatty())

    def explain(self, number: int, round: Round, tokenizer: Tokenizer) -> None:
        """Print the round as a table: at once, or stage by stage, after an Enter each."""
        from decoding.cli.trace import explain  # imports torch
        from decoding.cli.tree_trace import explain_tree
        from decoding.tree import TreeRound

        explain_round = explain_tree if isinstance(round, TreeRound) else explain
        for stage, next_one in (DRAFT, "the target's answer"), (TARGET, "verdict"):
            if self.waits and round.drafted:
                self.say(explain_round(number, round, tokenizer, stage, self.look))
                self.wait(next_one)
        self.say(explain_round(number, round, tokenizer, VERDICT, self.look))

    @property
    def look(self) -> Look:
        """What a table can look like now; a window's width may change."""
        limit = min(WIDEST, columns(sys.stderr) or WIDEST)
        try:
            "█".encode(getattr(sys.stderr, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            return Look(limit, self.color_tables, "#")
        return Look(limit, self.color_tables)

    def counted(self, rounds: Iterable[Round], what: str, total: int) -> Iterator[Round]:
        """Yield the same rounds, with a line on the terminal that counts them."""
        for number, round in enumerate(rounds, start=1):
            if not self.quiet:
                show_in_place(f"{what}: {number} of {total} tokens")
            yield round
        if not self.quiet:
            show_in_place("")


@contextmanager
def loading(options: argparse.Namespace) -> Iterator[None]:
    """Say on a terminal that models are being loaded, as long as they are."""
    models = [name for name in (options.target, options.draft) if name not in (None, LOOKUP)]
    if not options.quiet:
        show_in_place(f"loading {' and '.join(models)} ...")
    try:
        yield
    finally:
        if not options.quiet:
            show_in_place("")


def forget_keys() -> None:
    """Throw away what was typed on a terminal so far."""
    if not sys.stdin.isatty():
        return
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def wants_color(choice: str, stream: TextIO) -> bool:
    """Return whether what goes to this stream is coloured, for this --color."""
    if choice == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return stream.isatty() and not plain
    return choice == "always"
