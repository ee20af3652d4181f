"""What a training shows on stderr; and the first Ctrl-C, which ends it between two steps."""
import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic

from weights.terminal import show_in_place, tell
from weights.training.loop import Trainer
from weights.training.objective import Evaluation


class Progress:
    """Prints a line for each measurement; on a terminal also a last line, anew every second."""

    def __init__(self, name: str) -> None:
        self.name, self.points, self.shown = name, 0, 0.0

    def show(self, trainer: Trainer) -> None:
        if self.points < len(trainer.curve):
            self.points = len(trainer.curve)
            show_in_place("")
            tell(self.line(trainer))
        elif monotonic() - self.shown > 1 and sys.stderr.isatty():  # seldom: the loss is waited for
            self.shown = monotonic()
            show_in_place(self.line(trainer))

    def line(self, trainer: Trainer) -> str:
        share = min(trainer.share, 1)
        left = trainer.seconds * (1 / share - 1)
        loss = math.nan if trainer.last_loss is None else trainer.last_loss.item()
        return (f"{self.name:6} {share:4.0%}  step {trainer.step:<5}  loss {loss:.3f}  "
                f"{in_words(trainer.curve[-1].held_out)}  {minutes(left)} left")


def in_words(evaluation: Evaluation) -> str:
    """Return a measurement in one line."""
    words = f"held-out loss {evaluation.loss:.3f}"
    if evaluation.acceptance is not None:
        words += (f"  Σ min(p,q) {evaluation.acceptance:.3f}"
                  f"  greedy agreement {evaluation.agreement:.3f}")
    return words


def minutes(seconds: float) -> str:
    """Return minutes and seconds: 75.2 -> 1:15"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed; so no step is cut in two.

    A second Ctrl-C interrupts as always.
    """
    pressed = Event()

    def note(*_) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, usual)

    usual = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, usual)
