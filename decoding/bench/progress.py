"""A line on the terminal: how many runs are done, and how long the rest will take. Imports no torch."""
import sys
from collections import Counter
from time import monotonic

from decoding.bench.arms import Arm, Task


class Progress:
    """Counts runs on stderr; silent where that is no terminal. Time left is by tokens, apart for each cache policy."""

    def __init__(self, runs: list[tuple[Arm, Task]]) -> None:
        self.total, self.finished = len(runs), 0
        self.left, self.tokens, self.seconds = Counter(), Counter(), Counter()  # by cache policy
        for arm, task in runs:
            self.left[arm.cache] += task.length
        self.visible = sys.stderr.isatty()
        self.last = monotonic()

    def done(self, arm_cache: str, length: int) -> None:
        """One more run, with this cache policy and so many new tokens, is finished."""
        now = monotonic()
        self.left[arm_cache] -= length
        self.tokens[arm_cache] += length
        self.seconds[arm_cache] += now - self.last
        self.finished, self.last = self.finished + 1, now
        if self.visible:
            print(f"\r{self.finished} of {self.total} runs, {clock(self.seconds_left())} left\033[K", end="", file=sys.stderr,
                  flush=True)

    def seconds_left(self) -> float:
        """What is left at the pace so far; a cache policy not met yet is taken to be like the others."""
        overall = self.seconds.total() / self.tokens.total()
        return sum(left * (self.seconds[cache] / self.tokens[cache] if self.tokens[cache] else overall)
                   for cache, left in self.left.items())

    def close(self) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
