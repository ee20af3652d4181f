"""What is seen of a training while it runs, on stderr; and the first Ctrl-C, which ends it between two steps."""
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic

from weights.training.loop import Trainer
from weights.training.objective import Evaluation


def say(line: str, end: str = "\n") -> None:
    print(line, end=end, file=sys.stderr, flush=True)


class Progress:
    """A line for each measurement. On a terminal also a last line, rewritten about every second."""

    def __init__(self, name: str) -> None:
        self.name, self.points, self.shown = name, 0, 0.0

    def show(self, trainer: Trainer) -> None:
        terminal = sys.stderr.isatty()
        clear = "\r\033[K" if terminal else ""
        if self.points < len(trainer.curve):
            self.points = len(trainer.curve)
            say(clear + self.line(trainer))
        elif terminal and monotonic() - self.shown > 1:  # to look at the loss is to wait for the device: not at every step
            self.shown = monotonic()
            say(clear + self.line(trainer), end="")

    def line(self, trainer: Trainer) -> str:
        share = min(trainer.share, 1)
        left = trainer.seconds * (1 / share - 1)
        return (f"{self.name:6} {share:4.0%}  step {trainer.step:<5}  loss {trainer.last_loss.item():.3f}  "
                f"{in_words(trainer.curve[-1].held_out)}  {minutes(left)} left")


def in_words(evaluation: Evaluation) -> str:
    words = f"held-out loss {evaluation.loss:.3f}"
    if evaluation.acceptance is not None:
        words += f"  Σ min(p,q) {evaluation.acceptance:.3f}  greedy agreement {evaluation.agreement:.3f}"
    return words


def minutes(seconds: float) -> str:
    """75.2 -> 1:15"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C was pressed; so no step is cut in two. A second one interrupts as always."""
    pressed = Event()

    def note(*_) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, usual)

    usual = signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, usual)
