"""Mistakes with trees of drafted tokens. The tests must notice every one of them.

A rule takes (tree, p, generator) as `decoding.walks` says. Each differs from `walk_drawn` in one
thing.
"""
import torch

from decoding.acceptance import residual
from decoding.drafters.tree import TEXT, CombDrafter
from decoding.random import draw, uniform
from decoding.sampling import GREEDY
from decoding.walks import Walk, without


def go_down(tree, p, generator, left_of_p=residual, left_of_q=without, ratio=None, last=None):
    """Do what `walk_drawn` does, but for one thing that is given.

    left_of_p(p, q), left_of_q(q, x): what a rejection leaves of both.
    ratio(p, first_q, q): what u is compared with, for the token x; each is of that token.
    last(first_p, p): what the token after the last candidate is drawn from.
    """
    path, here = list[int](), TEXT
    while True:
        children, first_p = tree.children(here), p[here + 1]
        left, q = first_p, tree.q[children[0]] if children else first_p
        for child in children:
            x = tree.ids[child:child + 1]
            threshold = left[x] / q[x] if ratio is None else ratio(left[x], tree.q[child][x], q[x])
            if (uniform((1,), generator, p.device) < threshold).item():
                break
            left, q = left_of_p(left, q), left_of_q(q, x)
        else:
            rest = left if last is None else last(first_p, left)
            return Walk(path, int(draw(rest[None], generator)))
        here = child
        path.append(here)


def p_unchanged(tree, p, generator):
    """Test the next candidate with the same p, although a rejection has shown something."""
    return go_down(tree, p, generator, left_of_p=lambda p, q: p)


def q_not_renormalised(tree, p, generator):
    """Leave q as it was, although the next candidate was drawn from what x leaves of it."""
    return go_down(tree, p, generator, left_of_q=lambda q, x: q)


def compare_with_the_first_q(tree, p, generator):
    """Compare u with p/q of the first row q; take the right q for the residual alone."""
    return go_down(tree, p, generator, ratio=lambda p, first_q, q: p / first_q)


def last_from_the_first_p(tree, p, generator):
    """Draw the token after the last rejection from the target's first p, not from what is left."""
    return go_down(tree, p, generator, last=lambda first_p, p: first_p)


class ChosenCandidates(CombDrafter):
    """Takes the draft's likeliest tokens as candidates of a sampled run, instead of drawing them.

    With `walk`, "is the token that the target draws among them?", the distribution stays right, and
    much of the speed is lost. With `walk_drawn` the distribution is wrong: nothing was drawn from
    q.
    """

    def propose_tree(self, tokens, k, sampling, generator):
        return super().propose_tree(tokens, k, GREEDY, generator)


def chance_of_chosen(p, q, width):
    """Return the chance that the target's token is among the `width` likeliest of q. (n,)

    p, q: (n, n_vocab).
    """
    return p.gather(-1, q.topk(width, dim=-1).indices).sum(-1)


def chance_of_drawn(p, q, width, generator):
    """Return the chance that one of `width` drawn candidates is kept at a place. (n,)

    Exact over the tests; over which candidates are rejected, one draw stands for each place.
    """
    missed = torch.ones_like(p[:, 0])
    for _ in range(width):
        kept = torch.minimum(p, q).sum(-1)
        missed = missed * (1 - kept).clamp(min=0)
        over = (q - p).clamp(min=0)  # a rejected token is distributed like this
        x = draw(torch.where(over.sum(-1, keepdim=True) > 0, over, q), generator)[:, None]
        p, q = residual(p, q), q.scatter(-1, x, 0)
        q = q / q.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)
    return 1 - missed
