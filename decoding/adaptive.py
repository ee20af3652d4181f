"""How many tokens to draft: always the same, or what has paid so far. The loop asks before each round and tells after it:

    largest                  the most tokens it may ask for
    timed                    whether it needs the time of each phase (each costs a wait for the device)
    choose()                 how many tokens to draft in the next round; called before anything of that round is drawn
    learn(round, seconds)    what the round came to, and the seconds of its phases, if timed
"""
from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import TYPE_CHECKING, Protocol

from decoding.theory import expected_tokens_per_round

if TYPE_CHECKING:
    from decoding.result import Round

DEFAULT_GAMMA = 4


class Gamma(Protocol):
    largest: int
    timed: bool

    def choose(self) -> int: ...
    def learn(self, round: Round, seconds: dict[str, float]) -> None: ...


class FixedGamma:
    """The same number in every round. Raises ValueError for a negative one."""

    timed = False

    def __init__(self, gamma: int) -> None:
        if gamma < 0:
            raise ValueError(f"gamma must be at least 0, not {gamma}")
        self.largest = gamma

    def choose(self) -> int:
        return self.largest

    def learn(self, round: Round, seconds: dict[str, float]) -> None:
        pass


class AdaptiveGamma:
    """The gamma that promises most tokens per second by Leviathan's formula, with acceptance and costs as measured so far.

    It serves one run. The output stays lossless: gamma is settled by past rounds before drafting begins, and no drawn token
    is dropped for its probability. But measured time decides, so the same seed need not give the same sampled text.

    largest: the most tokens per round. start: how many it drafts before it knows what drafting costs.
    """

    timed = True
    RECENT = 9  # measurements of each cost that count, the latest ones
    FADING = 0.97  # weight of the tests of the round before; acceptance changes along a text

    def __init__(self, largest: int = 8, start: int = 4) -> None:
        self.largest, self.start = largest, min(start, largest)
        self.accepted = self.tested = 0.0
        self.draft_steps: deque[float] = deque(maxlen=self.RECENT)  # seconds per drafted token
        self.rests: dict[int, deque[float]] = {}  # by the number drafted: seconds of a round but for drafting

    def choose(self) -> int:
        costs = self.rest_costs()
        if 0 not in costs:  # what a plain step costs; it earns its token in any case
            return 0
        if len(self.draft_steps) < 2:
            return self.start
        return max(range(self.largest + 1), key=lambda gamma: self.tokens_per_second(gamma, costs))

    def learn(self, round: Round, seconds: dict[str, float]) -> None:
        k = len(round.drafted)
        if k > 0:
            self.draft_steps.append(seconds["draft"] / k)
        self.rests.setdefault(k, deque(maxlen=self.RECENT)).append(round.seconds - seconds["draft"])
        self.accepted = self.FADING * self.accepted + round.accepted
        self.tested = self.FADING * self.tested + round.tested

    @property
    def alpha(self) -> float:
        """Accepted over tested, with one accepted token more than was seen. Where nothing is drafted the tests fade and
        this rises towards 1, so gamma = 0 is left again to look, unless even a perfect draft would lose."""
        return (self.accepted + 1) / (self.tested + 1)

    def tokens_per_second(self, gamma: int, costs: dict[int, float]) -> float:
        """What rounds of this gamma would give. `costs` as from `rest_costs`, with an entry for 0."""
        seconds = gamma * median_low(self.draft_steps) + interpolate(costs, gamma)
        return expected_tokens_per_round(self.alpha, gamma) / seconds

    def rest_costs(self) -> dict[int, float]:
        """Seconds of verifying and accepting, by the number of drafted tokens. The first time a number comes up it pays
        for buffers and kernels of a new shape, so a single measurement does not count."""
        return {k: median_low(seconds) for k, seconds in self.rests.items() if len(seconds) > 1}


def interpolate(costs: dict[int, float], k: int) -> float:
    """The cost at k: on the straight line between the nearest known ones, and beyond the last one no higher."""
    below = max(known for known in costs if known <= k)
    above = min((known for known in costs if known >= k), default=below)
    if above == below:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (k - below) / (above - below)


def as_gamma(gamma: int | str | Gamma) -> Gamma:
    """A number is that number in every round, "auto" a new AdaptiveGamma, and an object with the four names is used as it is.

    Raises ValueError for a negative number and for anything else.
    """
    if isinstance(gamma, int):
        return FixedGamma(gamma)
    if gamma == "auto":
        return AdaptiveGamma()
    if not hasattr(gamma, "choose"):
        raise ValueError(f'gamma must be a whole number or "auto", not {gamma!r}')
    return gamma
