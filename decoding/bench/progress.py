"""A line on the terminal: how many runs are done, and how long the rest will take.

Imports no torch.
"""
from collections import Counter
from time import monotonic

from decoding.bench.arms import Arm, Task
from weights.terminal import show_in_place


class Progress:
    """Counts runs on stderr; silent where that is no terminal.

    The time left is estimated from the tokens so far, for each cache policy by itself.
    """

    def __init__(self, runs: list[tuple[Arm, Task]]) -> None:
        self.total, self.finished = len(runs), 0
        # By cache policy: tokens still to come, tokens so far, and their seconds.
        self.left: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        for arm, task in runs:
            self.left[arm.cache] += task.length
        self.last = monotonic()

    def done(self, cache: str, length: int) -> None:
        """Count one more run, with this cache policy and so many new tokens."""
        now = monotonic()
        self.left[cache] -= length
        self.tokens[cache] += length
        self.seconds[cache] = self.seconds.get(cache, 0.0) + now - self.last
        self.finished, self.last = self.finished + 1, now
        left = clock(self.seconds_left())
        show_in_place(f"{self.finished} of {self.total} runs, {left} left")

    def seconds_left(self) -> float:
        """Return how long the rest will take at the speed so far.

        A cache policy of which no run is done yet is taken to be like the others.
        """
        overall = sum(self.seconds.values()) / self.tokens.total()
        return sum(left * (self.seconds[cache] / self.tokens[cache] if cache in self.seconds
                           else overall)
                   for cache, left in self.left.items())

    def close(self) -> None:
        """Wipe the line away."""
        show_in_place("")


def clock(seconds: float) -> str:
    """Return a duration in the largest unit that it has one of."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
