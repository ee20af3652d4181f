"""What is seen of a training while it runs, on stderr; and the first Ctrl-C, which ends it between two steps."""
import signal
import sys
from time import monotonic

from weights.training.loop import Trainer
from weights.training.objective import Evaluation


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


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
        elif terminal and monotonic() - self.shown > 1:  # looking at the loss waits for the device, so not at every step
            self.shown = monotonic()
            print(clear + self.line(trainer), end="", file=sys.stderr, flush=True)

    def line(self, trainer: Trainer) -> str:
        loss = trainer.last_loss.item()
        left = trainer.seconds * (1 / trainer.share - 1) if trainer.share else 0
        return (f"{self.name} {min(trainer.share, 1):4.0%}  step {trainer.step:<5}  loss {loss:.3f}  "
                f"{in_words(trainer.curve[-1].held_out)}  {minutes(max(left, 0))} left")


def in_words(evaluation: Evaluation) -> str:
    words = f"held-out loss {evaluation.loss:.3f}"
    if evaluation.acceptance is not None:
        words += f"  Σ min(p,q) {evaluation.acceptance:.3f}  greedy agreement {evaluation.agreement:.3f}"
    return words


def minutes(seconds: float) -> str:
    """75.2 -> 1:15"""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class StopOnInterrupt:
    """Within it the first Ctrl-C only sets `asked`, so that no step is cut in two; a second one interrupts as always."""

    def __enter__(self) -> "StopOnInterrupt":
        self.asked = False
        self.usual = signal.signal(signal.SIGINT, self.ask)
        return self

    def ask(self, *_) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self.usual)
        say("\nstopping after this step; Ctrl-C again to stop at once")

    def __exit__(self, *_) -> None:
        signal.signal(signal.SIGINT, self.usual)
