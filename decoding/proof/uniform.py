"""A uniform number of which nothing is known but the comparisons so far.

A rule compares u with p/q. The enumeration follows both answers, so here u has no value. It is an
interval, which every comparison with a number divides, and the lengths of the parts are the exact
probabilities of the answers.
"""
from collections.abc import Callable

Take = Callable[[list[tuple[bool, float]]], bool]  # [(answer, its chance)] -> the answer to follow


class Uniform:
    """One number: what the answers so far have left of the interval [0, 1).

    It lies in [low, high). If `above_low`, it is not low itself.
    """

    def __init__(self, take: Take) -> None:
        self.take, self.low, self.high, self.above_low = take, 0.0, 1.0, False

    def below(self, cut: float, equal: bool) -> bool:
        """Return whether u < cut, or u <= cut if `equal`; from then on it is known.

        That u is low itself has probability 0. But it does happen, so it is followed, too.
        """
        is_low = equal and cut == self.low  # the question is whether u <= low
        possible = self.low < cut or (is_low and not self.above_low)
        middle = min(max(cut, self.low), self.high)
        chance = (middle - self.low) / (self.high - self.low) if self.low < self.high else 1.0
        yes, no = [(True, chance)] * possible, [(False, 1 - chance)] * (chance < 1 or not possible)
        answer = self.take(yes + no)
        if answer:
            self.high = middle
        else:
            self.above_low = equal if self.low < cut else self.above_low or is_low
            self.low = middle
        return answer
