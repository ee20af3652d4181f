"""What speculation costs and how often it is right: c, v and alpha of the closed forms.

They are measured by themselves, not taken from the runs that they predict.
"""
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from decoding.bench.arms import Row
from decoding.bench.rows import check_settings
from decoding.feed import Model
from decoding.observer import synchronize
from decoding.result import Round
from decoding.sampling import Sampling, to_host, to_probs
from weights.files import parse_json, reading

REPEATS = 7


@dataclass(frozen=True)
class Costs:
    """The times of single forward passes, rounds and loading, in seconds."""

    held: int  # tokens in the caches before each forward pass
    target: list[float]  # T(n) at index n - 1: one forward over n new tokens, n = 1, 2, ...
    draft: list[float]
    # by gamma, as text: the phases of a round, see `phase_seconds`
    phases: dict[str, dict[str, float] | None] = field(default_factory=dict)
    load_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def c(self) -> float:
        """The cost of one draft step over that of one target step."""
        return self.draft[0] / self.target[0]

    def v(self, gamma: int) -> float:
        """Return the cost of verifying gamma + 1 tokens over that of one target step.

        The paper takes 1.
        """
        return self.target[gamma] / self.target[0]


def read_costs(path: Path, settings: Row) -> Costs:
    """Return the costs an earlier run has written.

    Raises ValueError if they were measured under other settings, or there are none in the file.
    """
    with reading(path):
        contents = path.read_bytes()
    try:
        found = parse_json(contents)
        measured_with = dict(found.pop("settings"))
        costs = Costs(**found)
        check(costs)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"{path} has no costs of this benchmark in it, or is damaged; delete it, "
                         "and --resume measures them again") from error
    check_settings(path, [{"settings": measured_with}], settings)
    return costs


def check(costs: Costs) -> None:
    """Raise ValueError, TypeError or the like unless these are times, as many as are needed."""
    phases = [time for round in costs.phases.values() if round is not None
              for time in (round["draft"], round["verify"], round["accept"])]
    times: list[Any] = [*costs.target, *costs.draft, *phases, *costs.load_seconds.values()]
    if not all(0 <= time < inf for time in [*times, costs.held]):
        raise ValueError("a time is no time")
    if min(costs.target[0], costs.draft[0]) == 0:
        raise ValueError("a pass took no time")
    if not len(costs.target) == len(costs.draft) > max(map(int, costs.phases)):
        raise ValueError("a time is missing")


def measure_costs(target: Model, draft: Model, most: int, held: int = 128) -> Costs:
    """Return T(1) .. T(most) of both models, as medians.

    The sizes are taken in turn, so that a slow moment hits all of them.
    held: tokens in the caches before each pass. It, and then `most`, is less where a context is
        too small.
    """
    n_ctx = min(target.config.n_ctx, draft.config.n_ctx)
    most = min(most, n_ctx)
    held = min(held, n_ctx - most)
    return Costs(held, forward_seconds(target, most, held), forward_seconds(draft, most, held))


@torch.no_grad()
def forward_seconds(model: Model, most: int, held: int) -> list[float]:
    """Return the median seconds of a forward over 1 .. most tokens after `held` others."""
    cache = model.new_cache(held + most)
    if held > 0:
        model.forward(torch.zeros(1, held, dtype=torch.long), cache, last=0)
    times: list[list[float]] = [[] for _ in range(most)]
    for repeat in range(REPEATS + 1):
        for n in range(1, most + 1):
            tokens = torch.zeros(1, n, dtype=torch.long)
            took = seconds(partial(model.forward, tokens, cache, last=n))
            cache.truncate(held)
            if repeat > 0:  # the first pass of each size is the warm-up
                times[n - 1].append(took)
    return [median(some) for some in times]


def seconds(work: Callable[[], object]) -> float:
    """Return how long the work takes, on the accelerator too."""
    synchronize()
    started = perf_counter()
    work()
    synchronize()
    return perf_counter() - started


def phase_seconds(rounds: Iterable[Round], gamma: int) -> dict[str, float] | None:
    """Return the median seconds of "draft", "verify" and "accept" in rounds with gamma drafted.

    None if there is no such round. The rounds are those of a traced run, which nothing else is
    measured on: it waits for the device after every phase.
    """
    found = [r.phase_seconds for r in rounds if len(r.drafted) == gamma]
    return {phase: median(f[phase] for f in found) for phase in found[0]} if found else None


@torch.no_grad()
def noise_free_alpha(target: Model, draft: Model, prompt: list[int], new_tokens: list[int],
                     sampling: Sampling) -> float | None:
    """Return the mean over the positions of a text of sum_x min(p(x), q(x)).

    That is the chance that a token drafted there is accepted (Leviathan et al. 2023, Theorem 3.5).
    No draw is involved, hence "noise-free". In greedy decoding it is the fraction of positions
    where both models take the same token. None for a text without new tokens. Raises ValueError if
    it is longer than a model can read.
    """
    if not new_tokens:
        return None
    text = torch.tensor([prompt + new_tokens[:-1]])
    p, q = (to_probs(model.forward(text, None, last=len(new_tokens))[0], sampling)
            for model in (target, draft))
    to_host([], p, q.to(p.device))  # refuses NaN
    return torch.minimum(p, q.to(p.device)).sum(-1).mean().item()
