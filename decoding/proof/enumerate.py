"""Every way a random program can go, and the exact probability of each: no seeds, no tolerance for chance.

A program here is a function without arguments whose randomness comes from `draw` and `uniform` of decoding/sampling.py
alone. `law` replaces the two by a tree of choices and runs the program once for each path through the tree.
"""
import sys
from contextlib import ExitStack
from unittest import mock

import torch

from decoding import sampling


def law(program):
    """{result: probability} over all paths. A result that is possible but of probability 0 is there, too, with a 0."""
    tree, results = Tree(), {}
    with ExitStack() as patches:
        for module, name in users_of(sampling.draw, sampling.uniform):
            patches.enter_context(mock.patch.object(module, name, getattr(tree, name)))
        while tree.waiting:
            tree.path, tree.step, tree.probability = tree.waiting.pop(), 0, 1.0
            result = program()
            results[result] = results.get(result, 0.0) + tree.probability
    return results


def users_of(*functions):
    """Every module that has one of the functions under its own name, a notebook's cells included."""
    return [(module, f.__name__) for module in list(sys.modules.values()) for f in functions
            if getattr(module, "__dict__", {}).get(f.__name__) is f]


class Tree:
    """The choices of one program. A path is a list of options taken; `waiting` holds the paths that are still to be run."""

    def __init__(self):
        self.waiting = [[]]

    def choose(self, options):
        """Take one of [(value, chance), ..]: the one the path says, or behind its end the first, with the rest put off."""
        if self.step == len(self.path):
            self.waiting += [self.path + [other] for other in range(1, len(options))]
            self.path = self.path + [0]
        value, chance = options[self.path[self.step]]
        self.step += 1
        self.probability *= chance
        return value

    def draw(self, probs, generator):
        (row,) = probs.tolist()  # the loop draws one token at a time
        total = sum(row)
        return torch.tensor([self.choose([(i, weight / total) for i, weight in enumerate(row) if weight > 0])])

    def uniform(self, shape, generator, device):
        return Uniforms([Uniform(self) for _ in range(*shape)])


class Uniform:
    """A number from [0, 1) of which no more is known than the comparisons so far have shown: it lies in [low, high)."""

    def __init__(self, tree):
        self.tree, self.low, self.high = tree, 0.0, 1.0

    def __lt__(self, ratio):
        return self.below(ratio, possible=self.low < ratio)

    def __le__(self, ratio):
        return self.below(ratio, possible=self.low <= ratio)  # u = ratio = 0 has probability 0, but it does happen

    def below(self, ratio, possible):
        cut = min(max(ratio, self.low), self.high)
        chance = (cut - self.low) / (self.high - self.low) if self.low < self.high else 1.0
        yes = self.tree.choose([(True, chance)] * possible + [(False, 1 - chance)] * (chance < 1 or not possible))
        self.low, self.high = (self.low, cut) if yes else (cut, self.high)
        return yes


class Uniforms:
    """What `u` is to a rule: it can be compared with a tensor of ratios. One number compared with many stays one number."""

    def __init__(self, numbers):
        self.numbers = numbers

    def compare(self, ratios, test):
        ratios = ratios.tolist()
        numbers = self.numbers * len(ratios) if len(self.numbers) == 1 else self.numbers
        return torch.tensor([test(u, ratio) for u, ratio in zip(numbers, ratios, strict=True)], dtype=torch.bool)

    def __lt__(self, ratios):
        return self.compare(ratios, Uniform.__lt__)

    def __le__(self, ratios):
        return self.compare(ratios, Uniform.__le__)
