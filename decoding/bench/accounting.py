"""Where the time of a run goes: every pass of every model timed, and all that is between them."""
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, sleep
from typing import Any

import torch
from torch import Tensor

from decoding.bench.clean import is_clean, waited
from decoding.feed import Cache, Model
from decoding.observer import synchronize
from decoding.result import Round

REPEATS, LEAST_SECONDS = 12, 1.0  # of the passes that are timed by themselves
PHASES = {"draft": "drafting, besides its passes", "verify": "verifying, besides its pass",
          "accept": "accept, emit, rewind"}


class Timed:
    """A model whose passes are timed. name: what it is called in the account."""

    def __init__(self, name: str, model: Model) -> None:
        self.name, self.model, self.config = name, model, model.config
        self.passes: list[tuple[str, float]] = []  # what it was, and its seconds

    def new_cache(self, capacity: int) -> Cache:
        return self.model.new_cache(capacity)

    def forward(self, tokens: Tensor, cache: Any = None, last: int | None = None) -> Tensor:
        started = perf_counter()
        logits = self.model.forward(tokens, cache, last)
        synchronize()
        self.passes.append((pass_name(self.name, tokens.shape[1], last == 0),
                            perf_counter() - started))
        return logits


def pass_name(who: str, n: int, prefill: bool = False) -> str:
    return f"{who}: prefill of {n} tokens" if prefill else f"{who}: pass over {n} tokens"


@dataclass
class Account:
    """The time of one run, divided: the parts add up to all of it."""

    seconds: float  # of the whole run
    waited: float  # how long its threads waited for a core meanwhile
    rounds: int
    tokens: int
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def lines(self) -> list[str]:
        """Return the table: each part, how often, the median of one, all of it, its share."""
        lines = ["| part | times | ms each, median | ms | of the run |", "|---|---|---|---|---|"]
        for part, times in self.parts.items():
            lines.append(f"| {part} | {len(times)} | {1000 * median(times):.2f} "
                         f"| {1000 * sum(times):.1f} | {sum(times) / self.seconds:.1%} |")
        lines.append(f"| the whole run | 1 | | {1000 * self.seconds:.1f} | 100% |")
        return lines


def take_account(begin: Callable[[], Iterator[Round]], models: Sequence[Timed], pid: int,
                 ) -> Account:
    """Run once, and divide the time. The run's observer has to time the phases, if it has any."""
    for model in models:
        model.passes.clear()
    before, started = waited([pid]), perf_counter()
    rounds = list(begin())
    seconds = perf_counter() - started
    account = Account(seconds, waited([pid]) - before, len(rounds),
                      sum(len(round.emitted) for round in rounds))
    for model in models:
        for name, took in model.passes:
            account.parts[name].append(took)
    inside = Counter({model.name: sum(took for name, took in model.passes if "prefill" not in name)
                      for model in models})
    for phase, name in PHASES.items():
        times = [round.phase_seconds[phase] for round in rounds if round.phase_seconds]
        passes = {"draft": inside["draft"], "verify": inside["target"]}.get(phase, 0.0)
        if times:
            account.parts[name] = [(sum(times) - passes) / len(times)] * len(times)
    rest = seconds - sum(map(sum, account.parts.values()))
    account.parts["the loop: caches, clocks, between phases and rounds"] = [rest]
    return account


def alone(model: Model, n: int, held: int, pid: int, pause: float = 0.0) -> float | None:
    """Return the median seconds of a pass over n tokens, the model doing nothing else.

    held: tokens in the cache before it. pause: seconds to wait before each pass, in which the
    threads may fall asleep. None if no sample was clean.
    """
    step = stepper(model, n, held)
    return clean_median([(step, True)], pid, pause)


def in_turns(target: Model, draft: Model, gamma: int, held: int, pid: int,
             timed: str) -> float | None:
    """Return the median seconds of the passes of `timed`, "draft" or "target", in a bare round.

    Bare: gamma passes of the draft over one token and one of the target over gamma + 1, and nothing
    between them. Each model pushes the other's weights out of the processor's cache.
    """
    small, large = stepper(draft, 1, held), stepper(target, gamma + 1, held)
    return clean_median([(small, timed == "draft")] * gamma + [(large, timed == "target")], pid)


def stepper(model: Model, n: int, held: int) -> Callable[[], None]:
    """Return a function that does one pass over n tokens after `held` others."""
    cache = model.new_cache(held + n)
    model.forward(torch.zeros(1, held, dtype=torch.long), cache, last=0)
    tokens = torch.zeros(1, n, dtype=torch.long)

    def step() -> None:
        model.forward(tokens, cache, last=n)
        synchronize()
        cache.truncate(held)
    return step


def clean_median(steps: list[tuple[Callable[[], None], bool]], pid: int, pause: float = 0.0,
                 ) -> float | None:
    """Return the median of the clean samples of those steps that are to be timed.

    All steps are done in order, again and again: REPEATS times and for LEAST_SECONDS.
    """
    samples: list[float] = []
    begun, done = perf_counter(), 0
    while done <= REPEATS or perf_counter() - begun < LEAST_SECONDS:
        for step, wanted in steps:
            if pause:
                sleep(pause)
            before, started = waited([pid]) if wanted else 0.0, perf_counter()
            step()
            took = perf_counter() - started
            if wanted and done > 0 and is_clean(took, waited([pid]) - before):
                samples.append(took)
        done += 1
    return median(samples) if samples else None
