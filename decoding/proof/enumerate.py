"""Every way a random program can go, and the exact probability of each: no seeds, no chance.

A program here is a function of one argument, a generator, and takes all its randomness from it by
`draw` and `uniform` of decoding/random.py. `distribution_of` runs it once for each path through the
tree of its choices.
"""
from collections.abc import Callable, Hashable
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result", bound=Hashable)


def distribution_of(program: Callable[["Paths"], Result]) -> dict[Result, float]:
    """Return {result: probability}, by running the program once for each path.

    A result that can happen, but with probability 0, is there too, with a 0.
    """
    paths = Paths()
    results: dict[Result, float] = {}
    while paths.waiting:
        paths.begin()
        result = program(paths)
        results[result] = results.get(result, 0.0) + paths.probability
    return results


class Paths:
    """A generator that takes every path in turn.

    A path is a list of the options taken; `waiting` holds the paths that are still to be run.
    """

    def __init__(self) -> None:
        self.waiting: list[list[int]] = [[]]

    def begin(self) -> None:
        """Turn to the next path."""
        self.path, self.step, self.probability = self.waiting.pop(), 0, 1.0

    def take(self, options: list[tuple]):
        """Return one value of [(value, chance), ..], and count its chance.

        It is the one the path says. Where the path ends it is the first; the others wait for their
        turn.
        """
        if self.step == len(self.path):
            self.waiting += [[*self.path, other] for other in range(1, len(options))]
            self.path = [*self.path, 0]
        value, chance = options[self.path[self.step]]
        self.step += 1
        self.probability *= chance
        return value

    def draw(self, probs: Tensor) -> Tensor:
        """Take one token per row. (rows, n_vocab) -> (rows,)"""
        tokens = []
        for row in probs.tolist():
            total = sum(row)
            options = [(i, weight / total) for i, weight in enumerate(row) if weight > 0]
            tokens.append(self.take(options))
        return torch.tensor(tokens)

    def uniform(self, shape: tuple[int, ...]) -> "Uniforms":
        """Return numbers of which nothing is known yet. shape: (n,)"""
        return Uniforms([Uniform(self) for _ in range(*shape)])


class Uniform:
    """A number from [0, 1) of which only the comparisons so far are known.

    It lies in [low, high).
    """

    def __init__(self, paths: Paths) -> None:
        self.paths, self.low, self.high = paths, 0.0, 1.0

    def __lt__(self, ratio: float) -> bool:
        return self.below(ratio, possible=self.low < ratio)

    def __le__(self, ratio: float) -> bool:
        # u = ratio = 0 has probability 0, but it does happen
        return self.below(ratio, possible=self.low <= ratio)

    def below(self, ratio: float, possible: bool) -> bool:
        """Return whether the number is below `ratio`, as the path says; from then on it is known.

        possible: whether it can be, given what is known already.
        """
        cut = min(max(ratio, self.low), self.high)
        chance = (cut - self.low) / (self.high - self.low) if self.low < self.high else 1.0
        yes, no = [(True, chance)] * possible, [(False, 1 - chance)] * (chance < 1 or not possible)
        answer = self.paths.take(yes + no)
        self.low, self.high = (self.low, cut) if answer else (cut, self.high)
        return answer


class Uniforms:
    """The `u` that a rule gets: all it can do is be compared with a tensor of ratios.

    One number may be compared with many ratios.
    """

    def __init__(self, numbers: list[Uniform]) -> None:
        self.numbers = numbers

    def compare(self, ratios: Tensor, test: Callable[[Uniform, float], bool]) -> Tensor:
        thresholds = ratios.reshape(-1).tolist()  # (1,) for a ratio without dimensions
        numbers = self.numbers
        if len(numbers) == 1:
            numbers = numbers * len(thresholds)
        passed = [test(u, ratio) for u, ratio in zip(numbers, thresholds, strict=True)]
        return torch.tensor(passed, dtype=torch.bool)

    def __lt__(self, ratios: Tensor) -> Tensor:
        return self.compare(ratios, Uniform.__lt__)

    def __le__(self, ratios: Tensor) -> Tensor:
        return self.compare(ratios, Uniform.__le__)
