"""Clocks that wait for the device: work on a GPU is only queued when a call returns."""
from time import perf_counter

import torch


class Stopwatch:
    """Seconds since it was made, and with `laps` also of each phase. A lap waits for the device, so it costs a little."""

    def __init__(self, laps: bool = False) -> None:
        self.laps = laps
        self.seconds: dict[str, float] = {}
        self.started = self.last = perf_counter()

    def lap(self, phase: str) -> None:
        """Put the time since the last lap down to `phase`."""
        if self.laps:
            synchronize()
            now = perf_counter()
            self.seconds[phase], self.last = now - self.last, now

    def total(self) -> float:
        return perf_counter() - self.started


def synchronize() -> None:
    """Wait until the accelerator, if there is one, has done all it was given."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
