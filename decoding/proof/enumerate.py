"""Every way a random program can go, and the exact probability of each: no seeds, no chance.

A program here is a function of one argument, a generator, and takes all its randomness from it by
`draw` and `uniform` of decoding/random.py. `distribution_of` runs it once for each path through the
tree of its choices.
"""
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from decoding.proof.uniforms import new_uniforms

Result = TypeVar("Result", bound=Hashable)


def distribution_of(program: Callable[["Path"], Result]) -> dict[Result, float]:
    """Return {result: probability}, by running the program once for each path.

    A result that can happen, but with probability 0, is there too, with a 0.
    """
    waiting: list[list[int]] = [[]]  # the paths that are still to be run
    results: dict[Result, float] = {}
    while waiting:
        path = Path(waiting.pop(), waiting)
        result = program(path)
        results[result] = results.get(result, 0.0) + path.probability
    return results


class Path:
    """A generator that chooses nothing by chance: it takes one path through the tree of choices.

    options: the number of the option to take at each choice. Where they end the first is taken,
        and the paths with one of the others are put down in `waiting`.
    """

    def __init__(self, options: list[int], waiting: list[list[int]]) -> None:
        self.options, self.waiting, self.step, self.probability = options, waiting, 0, 1.0

    def take(self, options: list[tuple]):
        """Return one value of [(value, chance), ..], and count its chance."""
        if self.step == len(self.options):
            self.waiting += [[*self.options, other] for other in range(1, len(options))]
            self.options = [*self.options, 0]
        value, chance = options[self.options[self.step]]
        self.step += 1
        self.probability *= chance
        return value

    def draw(self, probs: Tensor) -> Tensor:
        """Take one token per row. (..., n_vocab) -> (...)"""
        tokens = [self.draw_one(row) for row in probs.reshape(-1, probs.shape[-1]).tolist()]
        return torch.tensor(tokens).reshape(probs.shape[:-1])

    def draw_one(self, row: list[float]) -> int:
        total = sum(row)
        if not total > 0 or min(row) < 0:
            raise ValueError(f"draw needs a row of probabilities, not {row}")
        return self.take([(i, weight / total) for i, weight in enumerate(row) if weight > 0])

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Return Uniforms, numbers of which nothing is known yet, in place of a tensor."""
        return new_uniforms(shape, self.take)
