"""The shapes of trees, as they are written on a command line. Imports no torch."""
import argparse
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

LARGEST_TREE = 1024  # drafted tokens; all are read in one pass
TREE_FORM = ("DEPTHxWIDTH, as in 4x2, for a chain with siblings, or the number of tokens that "
             "follow each one, level by level, as in 4,2,2,1")


@dataclass(frozen=True)
class Shape:
    """How many candidates each position has.

    widths: of each level of the tree.
    comb: only the first token of a level is followed by others.
    nodes: how many tokens the whole tree has.
    """

    widths: list[int]
    comb: bool
    nodes: int

    @property
    def depth(self) -> int:
        return len(self.widths)


def shape(text: str) -> Shape:
    """Return the shape that a text such as 4x2 or 4,2,2,1 stands for.

    Raises ArgumentTypeError, which is argparse's, for a text that stands for none.
    """
    comb = "x" in text
    parts = text.split("x" if comb else ",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts) or (comb and len(parts) != 2):
        raise argparse.ArgumentTypeError(f"{TREE_FORM}; each number is at least 1, not {text!r}")
    numbers = [int(part) for part in parts]
    nodes = numbers[0] * numbers[1] if comb else sum(accumulate(numbers, mul))
    if nodes > LARGEST_TREE:
        raise argparse.ArgumentTypeError(f"a tree has at most {LARGEST_TREE} tokens, "
                                         f"and {text!r} has {nodes}")
    return Shape(numbers[0] * [numbers[1]] if comb else numbers, comb, nodes)


def tree(text: str) -> str:
    """Return the text of a shape if it is one; an argparse type."""
    shape(text)
    return text
