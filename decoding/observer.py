"""Watching a run from outside: how long its rounds take and, if asked for, what they computed."""
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from decoding.acceptance import Block


@dataclass(frozen=True)
class Trace:
    """What was computed in a round. p and q are after temperature, top-k and top-p."""

    p: Tensor  # (k + 1, n_vocab) the target's distribution at each drafted token, and one more
    q: Tensor  # (k, n_vocab) the distributions the drafted tokens were drawn from
    logits: Tensor  # (k + 1, n_vocab) the target's logits, from which p was made
    u: Tensor | None  # (k,) the uniform of each test; None under a rule that needs none
    block: Block | None  # what the block rule compared them with


class Observer:
    """Times one run, and keeps what it computed if asked to.

    The loop calls `begin` before its prefill and before each round, `prefilled` after the prefill,
    `lap` after each phase of a round, and `notes` when the round is done.

    phases: time each phase, too. The run then waits for the device after each one.
    trace: keep what was computed; implies phases.
    """

    def __init__(self, phases: bool = False, trace: bool = False) -> None:
        self.phases, self.trace = phases or trace, trace
        self.prefill_seconds: float | None = None
        self.begin()

    def begin(self) -> None:
        """Start the clock."""
        self.seconds: dict[str, float] = {}
        self.computed: dict[str, Any] = {}  # the fields of a Trace
        self.started = self.last = perf_counter()

    def prefilled(self) -> None:
        """Stop the clock of the prefill, whose time is not part of the first round's."""
        synchronize()
        self.prefill_seconds = perf_counter() - self.started

    def lap(self, phase: str, **computed: Any) -> None:
        """Record the time since the last call as the time of `phase`, and keep what it computed."""
        if self.phases:
            synchronize()
            now = perf_counter()
            self.seconds[phase], self.last = now - self.last, now
        if self.trace:
            self.computed |= computed

    def notes(self, kind: Callable[..., Any] = Trace) -> dict:
        """Return the fields of a Round that are not the algorithm's: its times and its trace.

        kind: the class of the trace.
        """
        notes = {"seconds": perf_counter() - self.started, "phase_seconds": self.seconds,
                 "prefill_seconds": self.prefill_seconds,
                 "trace": kind(**self.computed) if self.trace else None}
        self.prefill_seconds = None  # the first round alone has it
        return notes


def synchronize() -> None:
    """Wait until the accelerator, if there is one, has done all it was given."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
