"""How many tokens to draft: always the same, or what has paid so far.

The loop asks `choose()` before each round and tells `learn(round)` after it. Imports no torch.
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
    largest: int  # the most tokens it may ask for

    def choose(self) -> int:
        """Return how many to draft in the next round. Called before anything is drawn."""
        ...

    def learn(self, round: Round) -> None:
        """Take note of how a round went."""


class FixedGamma:
    """The same number in every round."""

    def __init__(self, gamma: int) -> None:
        self.largest = gamma

    def choose(self) -> int:
        return self.largest

    def learn(self, round: Round) -> None:
        pass


class AdaptiveGamma:
    """The gamma that promises most tokens per second, by acceptance and costs as measured so far.

    The promise is Leviathan's formula (`decoding.theory`).

    It serves one run. The output stays lossless: gamma is settled by past rounds before drafting
    begins, and no drawn token is dropped for its probability. But measured time decides, so the
    same seed need not give the same sampled text.

    largest: the most tokens per round.
    start: how many it drafts before it knows what drafting costs.
    """

    RECENT = 9  # measurements of each cost that count, the latest ones
    FADING = 0.97  # weight of the tests of the round before; acceptance changes along a text

    def __init__(self, largest: int = 8, start: int = 4) -> None:
        self.largest, self.start = largest, min(start, largest)
        self.accepted = self.tested = 0.0
        self.draft_steps: deque[float] = deque(maxlen=self.RECENT)  # seconds per drafted token
        # by the number drafted: seconds of a round but for drafting
        self.rests: dict[int, deque[float]] = {}

    def choose(self) -> int:
        costs = self.rest_costs()
        if 0 not in costs:  # what a plain step costs; it earns its token in any case
            return 0
        if len(self.draft_steps) < 2:
            return self.start
        return max(range(self.largest + 1), key=lambda gamma: self.tokens_per_second(gamma, costs))

    def learn(self, round: Round) -> None:
        k, drafting = len(round.drafted), round.phase_seconds["draft"]
        if k > 0:
            self.draft_steps.append(drafting / k)
        self.rests.setdefault(k, deque(maxlen=self.RECENT)).append(round.seconds - drafting)
        self.accepted = self.FADING * self.accepted + round.accepted
        self.tested = self.FADING * self.tested + round.tested

    @property
    def alpha(self) -> float:
        """Accepted over tested, with one accepted token more than was seen.

        While gamma is 0 old counts fade and the estimate drifts to 1, so drafting is tried again
        later, unless even a perfect draft would lose.
        """
        return (self.accepted + 1) / (self.tested + 1)

    def tokens_per_second(self, gamma: int, costs: dict[int, float]) -> float:
        """Predict the pace of rounds of this gamma. costs: from `rest_costs`, with one for 0."""
        seconds = gamma * median_low(self.draft_steps) + interpolate(costs, gamma)
        return expected_tokens_per_round(self.alpha, gamma) / seconds

    def rest_costs(self) -> dict[int, float]:
        """Return the seconds of verifying and accepting, by the number of drafted tokens.

        The first time a number comes up it pays for buffers and kernels of a new shape, so a single
        measurement does not count.
        """
        return {k: median_low(seconds) for k, seconds in self.rests.items() if len(seconds) > 1}


def interpolate(costs: dict[int, float], k: int) -> float:
    """Return the cost at k: on a line between the nearest known ones, after the last one equal."""
    below = max(known for known in costs if known <= k)
    above = min((known for known in costs if known >= k), default=below)
    if above == below:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (k - below) / (above - below)


def as_gamma(gamma: int | Gamma) -> Gamma:
    """Return an object with `choose` and `learn`. Raises ValueError for what can be neither."""
    if isinstance(gamma, int):
        if gamma < 0:
            raise ValueError(f"gamma must be at least 0, not {gamma}")
        return FixedGamma(gamma)
    if not hasattr(gamma, "choose"):
        raise ValueError("gamma must be a whole number or an object like AdaptiveGamma(), "
                         f"not {gamma!r}")
    return gamma


def most(gamma: int | Gamma) -> int:
    """Return the most tokens that may be drafted in a round."""
    return gamma if isinstance(gamma, int) else gamma.largest
