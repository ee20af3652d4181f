"""The rules that decide which path of a tree of drafted tokens stays. A rule is a function:

    rule(tree, p, generator) -> Walk

    tree     ids (N,), q (N, n_vocab) and parents (see `decoding.drafters.tree`)
    p        (N + 1, n_vocab)  p[0] is the target's distribution after the text, p[i + 1] the one
                               after drafted token i
"""
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from decoding.acceptance import residual
from decoding.drafters.tree import TEXT, Tree
from decoding.random import Generator, draw, uniform
from decoding.sampling import Sampling


class Test(NamedTuple):
    """The test of one candidate, to be shown in a trace."""

    node: int
    ratio: Tensor  # (1,) p/q, after what earlier candidates have left of both
    u: Tensor  # (1,) kept if u < ratio


class Walk(NamedTuple):
    path: list[int]  # the drafted tokens that are kept, by their index in the tree
    token: int  # the one that follows them
    tests: list[Test] = []  # noqa: RUF012  never changed


Rule = Callable[[Tree, Tensor, Generator], Walk]


def walk(tree: Tree, p: Tensor, generator: Generator) -> Walk:
    """Go down the tree while the target's own choice is in it; end with the choice that is not.

    What is written is always the target's draw from p (in a greedy run its only choice), so any
    tree will do: greedy and shared-noise candidates, and those that were chosen and not drawn.
    """
    ids, path, here = tree.ids.tolist(), list[int](), TEXT
    while True:
        token = int(draw(p[here + 1][None], generator))
        here = next((i for i in tree.children(here) if ids[i] == token), TEXT)
        if here == TEXT:
            return Walk(path, token)
        path.append(here)


def walk_drawn(tree: Tree, p: Tensor, generator: Generator) -> Walk:
    """Test the candidates for a position one after the other; go on from the one that is kept.

    They were drawn from q without replacement. Candidate x is kept if u < p(x)/q(x). A rejected one
    leaves max(0, p - q), normalised, for p, and q without x, normalised, for q: from that the next
    was drawn. After the last the token is drawn from the p that is left. Every emitted token is
    distributed as p (Jeon et al. 2024, arXiv 2402.14160; Sequoia, Chen et al. 2024, 2402.12374).
    """
    path, tests, here = list[int](), list[Test](), TEXT
    while True:
        children = tree.children(here)
        left = p[here + 1]  # (n_vocab,)
        q = tree.q[children[0]] if children else left
        for child in children:
            x = tree.ids[child:child + 1]  # (1,)
            tests.append(Test(child, left[x] / q[x], uniform((1,), generator, p.device)))
            if (tests[-1].u < tests[-1].ratio).item():
                break
            left, q = residual(left, q), without(q, x)
        else:
            return Walk(path, int(draw(left[None], generator)), tests)
        here = child
        path.append(here)


def without(q: Tensor, x: Tensor) -> Tensor:
    """Return the distribution q of a token that is known not to be x. (n_vocab,)"""
    q = q.index_fill(-1, x, 0)
    return q / q.sum()


def usual_walk(sampling: Sampling) -> Rule:
    """Return the rule that fits the candidates of a `CombDrafter` or `WidthsDrafter`."""
    return walk if sampling.greedy else walk_drawn
