"""Drafts that are trees: several candidates for a position, and what may follow each of them."""
from itertools import accumulate
from operator import mul
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from decoding.drafters.model import ModelDrafter
from decoding.feed import NOTHING, TreeModel, feed, feed_tree, prefill
from decoding.random import Generator
from decoding.sampling import UNCHANGED, Sampling, choose, to_probs
from decoding.shapes import Shape

TEXT = -1  # the parent of a token that follows the text


class Tree(NamedTuple):
    """Drafted tokens, of which several may follow the same one. N = 0 is legal."""

    ids: Tensor  # (N,)
    q: Tensor  # (N, n_vocab) the draft's distribution at each token's position; siblings share it
    parents: list[int]  # the index of the token each one follows, a smaller one, or TEXT

    def children(self, node: int) -> list[int]:
        """Return the tokens that follow this one, in the order in which they were drawn."""
        return [i for i, parent in enumerate(self.parents) if parent == node]

    def to(self, device: torch.device) -> "Tree":
        return Tree(self.ids.to(device), self.q.to(device), self.parents)


class TreeDrafter(Protocol):
    """Anything that proposes trees; see `decoding.drafters.Drafter`."""

    depth: int  # the most tokens on a path
    nodes: int  # the most tokens in a tree

    @property
    def n_ctx(self) -> float: ...

    def start(self, prompt: list[int], capacity: int) -> None: ...

    def propose_tree(self, tokens: list[int], k: int, sampling: Sampling,
                     generator: Generator) -> Tree:
        """Return a tree of at most k levels, k >= 1, that may follow `tokens`."""
        ...

    def rewind(self, length: int) -> tuple[int, int] | None: ...


class CombDrafter(ModelDrafter):
    """A chain of `depth` tokens, and for each position of it width - 1 others from the same row.

    The siblings cost the draft nothing: it reads the chain alone. Raises ValueError unless both
    numbers are at least 1.
    """

    def __init__(self, model: TreeModel, depth: int, width: int) -> None:
        super().__init__(model)
        check_widths([depth, width])
        self.depth, self.width, self.nodes = depth, width, depth * width

    def propose_tree(self, tokens: list[int], k: int, sampling: Sampling,
                     generator: Generator) -> Tree:
        """Return the tree: the chain first, then the siblings, position by position."""
        drafted, rows, siblings = NOTHING, [], []
        for _ in range(min(k, self.depth)):
            row = ranked(feed(self.model, self.cache, tokens, drafted)[0], sampling)  # (n_vocab,)
            found = candidates(row, self.width, sampling, generator)  # (width,) or fewer
            drafted = torch.cat([drafted.to(found.device), found[:1]])
            rows.append(row)
            siblings.append(found[1:])
        parents = list(range(-1, len(rows) - 1))
        at = [*range(len(rows)), *(i for i, some in enumerate(siblings) for _ in some)]
        return Tree(torch.cat([drafted, *siblings]), torch.stack(rows)[at],
                    [parents[i] for i in at])


class WidthsDrafter(ModelDrafter):
    """A tree in which every token of level d has widths[d] children.

    The draft reads the tree so far anew for each level: its branches differ, so one chain in its
    cache would not do. Raises ValueError unless there is a level, and every width at least 1.
    """

    def __init__(self, model: TreeModel, widths: list[int]) -> None:
        super().__init__(model)
        check_widths(widths)
        self.tree_model, self.widths, self.depth = model, widths, len(widths)
        self.nodes = sum(accumulate(widths, mul))

    def start(self, prompt: list[int], capacity: int) -> None:
        # branches lie side by side: more rows than positions
        self.cache = self.model.new_cache(min(capacity, self.n_ctx) + self.nodes)
        if len(prompt) <= self.n_ctx:
            prefill(self.model, self.cache, prompt)

    def propose_tree(self, tokens: list[int], k: int, sampling: Sampling,
                     generator: Generator) -> Tree:
        """Return the tree, level by level."""
        ids, rows, parents, level = NOTHING, list[Tensor](), list[int](), [TEXT]
        for width in self.widths[:k]:
            logits = feed_tree(self.tree_model, self.cache, tokens, ids, parents, len(level))
            self.cache.truncate(min(self.cache.length, len(tokens)))  # forget the tree
            next_level: list[int] = []
            for node, row in zip(level, ranked(logits, sampling)):
                found = candidates(row, width, sampling, generator)
                ids = torch.cat([ids.to(found.device), found])
                next_level += range(len(parents), len(parents) + len(found))
                rows += [row] * len(found)
                parents += [node] * len(found)
            level = next_level
        return Tree(ids, torch.stack(rows), parents)


def tree_drafter(model: TreeModel, shape: Shape) -> TreeDrafter:
    """Return the drafter of trees of this shape."""
    if shape.comb:
        return CombDrafter(model, shape.depth, shape.widths[0])
    return WidthsDrafter(model, shape.widths)


def check_widths(numbers: list[int]) -> None:
    """Raise ValueError for the numbers of a shape that is no tree."""
    if not numbers or min(numbers) < 1:
        raise ValueError(f"a tree has depths and widths of at least 1, not {numbers}")


def ranked(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the rows that candidates are taken from. (..., n_vocab)

    Greedy rows would be one-hot, and have no second candidate.
    """
    return to_probs(logits, UNCHANGED if sampling.greedy else sampling)


def candidates(row: Tensor, width: int, sampling: Sampling, generator: Generator) -> Tensor:
    """Draw `width` different tokens, one after the other; in a greedy run take the likeliest ones.

    row: (n_vocab,). Returns fewer, at least one, where no more have a probability.
    """
    found: list[Tensor] = []
    possible = int((row > 0).sum())  # 0 in a row of NaN, which `to_host` refuses later
    for _ in range(max(1, min(width, possible))):
        found.append(choose(row[None], sampling, generator))
        row = row.index_fill(-1, found[-1], 0)
    return torch.cat(found)
