"""How many tokens to draft: always the same number, or the one that has paid so far.

The loop asks `choose()` before each round and tells `learn(round)` after it. Imports no torch.
"""
from __future__ import annotations

from collections import deque
from itertools import accumulate
from numbers import Integral
from operator import mul
from statistics import median_low
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from decoding.result import Round

DEFAULT_GAMMA = 4
LARGEST_GAMMA = 1024  # GPT-2's context; a run counts the rounds for each number of accepted tokens


class Gamma(Protocol):
    largest: int  # the most tokens it may ever ask for

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

    A round that has kept i drafted tokens keeps one more with a chance that does not depend on
    gamma, under the token rule and under the block rule. So the chances are counted by i, and a
    gamma promises one token and the products of the first 1, 2, .. gamma of them. (Were all the
    same alpha, that would be Leviathan's formula.) The clock says how long a round takes. An
    AdaptiveGamma serves one run. The output stays lossless: past rounds decide gamma before
    drafting begins, and no drawn token is dropped for its probability. But measured time decides
    too, so the same seed need not give the same sampled text.

    largest: the most tokens per round.
    start: how many it drafts before it knows what drafting costs.
    """

    RECENT = 9  # how many measurements of each cost count, the latest ones
    FADING = 0.97  # what earlier counts keep of their weight each round: acceptance changes
    FEW = 4  # a chance that was seen this often counts as much as the average over all i

    def __init__(self, largest: int = 8, start: int = 4) -> None:
        self.largest, self.start = largest, min(start, largest)
        # by i: rounds that kept i tokens and had drafted more; those of them that kept one more
        self.reached, self.passed = [0.0] * largest, [0.0] * largest
        self.draft_seconds: deque[float] = deque(maxlen=self.RECENT)  # per drafted token
        # of verifying and accepting, by the number of drafted tokens
        self.verify_seconds: dict[int, deque[float]] = {}

    def choose(self) -> int:
        costs = self.verify_costs()
        if 0 not in costs:  # measure a plain step first; it gives a token, too
            return 0
        if len(self.draft_seconds) < 2:
            return self.start
        return max(range(self.largest + 1), key=lambda gamma: self.tokens_per_second(gamma, costs))

    def learn(self, round: Round) -> None:
        k, drafting = len(round.drafted), round.phase_seconds["draft"]
        if k > 0:
            self.draft_seconds.append(drafting / k)
        times = self.verify_seconds.setdefault(k, deque(maxlen=self.RECENT))
        times.append(round.seconds - drafting)
        went_on = round.accepted + (round.kind == "correction")
        for i in range(self.largest):
            self.reached[i] = self.FADING * self.reached[i] + (i < went_on)
            self.passed[i] = self.FADING * self.passed[i] + (i < round.accepted)

    def chances(self) -> list[float]:
        """Estimate, for each i below `largest`, that a round which keeps i tokens keeps one more.

        The average over all i is taken with one more success than was seen. While gamma is 0 old
        counts fade and the estimates drift to 1, so drafting is tried again later, unless even a
        perfect draft would lose.
        """
        average = (sum(self.passed) + 1) / (sum(self.reached) + 1)
        return [(passed + self.FEW * average) / (reached + self.FEW)
                for passed, reached in zip(self.passed, self.reached)]

    def tokens_per_second(self, gamma: int, costs: dict[int, float]) -> float:
        """Predict the speed with this gamma. costs: from `verify_costs`, with one for 0."""
        seconds = gamma * median_low(self.draft_seconds) + interpolate(costs, gamma)
        return self.tokens_per_round(gamma) / seconds

    def tokens_per_round(self, gamma: int) -> float:
        return 1 + sum(accumulate(self.chances()[:gamma], mul))

    def verify_costs(self) -> dict[int, float]:
        """Return the median seconds of verifying and accepting, by the number of drafted tokens.

        The first time a number comes up it pays for buffers and kernels of a new shape, so a single
        measurement does not count.
        """
        return {k: median_low(times) for k, times in self.verify_seconds.items() if len(times) > 1}


def interpolate(costs: dict[int, float], k: int) -> float:
    """Return the cost at k: on a line between the nearest known costs; beyond them the last."""
    below = max(known for known in costs if known <= k)
    above = min((known for known in costs if known >= k), default=below)
    if above == below:
        return costs[below]
    return costs[below] + (costs[above] - costs[below]) * (k - below) / (above - below)


def as_gamma(gamma: int | Gamma) -> Gamma:
    """Return an object with `choose` and `learn`. Raises ValueError for what cannot be one."""
    if isinstance(gamma, (int, Integral)):  # numpy's, too
        if isinstance(gamma, bool):
            raise ValueError(f"gamma must be a whole number, not {gamma}")
        if gamma < 0:
            raise ValueError(f"gamma must be at least 0, not {gamma}")
        return FixedGamma(int(gamma))
    if not hasattr(gamma, "learn"):
        raise ValueError("gamma must be a whole number or an object like AdaptiveGamma(), "
                         f"not {gamma!r}")
    return gamma


def most(gamma: int | Gamma) -> int:
    """Return the most tokens that may be drafted in a round with this gamma."""
    return as_gamma(gamma).largest
