"""Where the tokens of a tree stand: several that may follow the same text, read in one pass.

A tree of T tokens is a list `parents`: parents[i] is the index of the token that token i follows,
always a smaller one; -1 stands for the text before the tree. A chain is the tree -1, 0, 1, ..
"""
import torch

from model.decoder import Place


def chain(n: int) -> list[int]:
    """Return the parents of n tokens one after the other."""
    return list(range(-1, n - 1))


def tree_place(parents: list[int], start: int) -> Place:
    """Return the place of a tree after a text of `start` cached tokens.

    A token stands one position after its parent, and sees the text, its ancestors and itself, but
    no other branch.
    """
    T = len(parents)
    sees = torch.eye(T, dtype=torch.bool)  # (T, T)
    for i, parent in enumerate(parents):
        if parent >= 0:
            sees[i] |= sees[parent]
    mask = torch.zeros(T, start + T)
    mask[:, start:].masked_fill_(~sees, -torch.inf)
    return Place(start + sees.sum(-1) - 1, mask)
