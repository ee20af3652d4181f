"""What each drafted token of a round was judged by, for whoever shows it: tables, recordings."""
from typing import NamedTuple

import torch
from torch import Tensor

from decoding.acceptance import residual
from decoding.drafters.tree import TEXT
from decoding.result import Round
from decoding.tree import TreeRound, TreeTrace
from decoding.walks import without


class Evidence(NamedTuple):
    """The numbers of a drafted token.

    Among candidates that were drawn for one position, q and p are what rejected ones before it
    leave of both: the numbers of the token as they are when its turn comes.
    """

    q: float  # its probability by the draft
    p: float  # its probability by the target
    u: float | None  # the uniform of its test; None if none was drawn
    P: float | None = None  # by the block rule: see `decoding.acceptance.Block`
    h: float | None = None


def evidence(round: Round) -> tuple[list[Evidence], Tensor | None]:
    """Return the numbers of each drafted token, and the residual that the extra one was drawn from.

    The residual is (n_vocab,), or None if the extra token is from none. Raises ValueError for a
    round that was run without trace=True.
    """
    trace = round.trace
    if trace is None:
        raise ValueError("this round was run without trace=True")
    if isinstance(round, TreeRound) and isinstance(trace, TreeTrace):
        return of_tree(round, trace)
    k, n = len(round.drafted), round.accepted
    u = [None] * k if trace.u is None else trace.u.tolist()
    P = h = [None] * k
    if trace.block is not None:  # the first of each is of no token
        P, h = trace.block.P.tolist()[1:], trace.block.h.tolist()[1:]
    numbers = [Evidence(trace.q[i, token].item(), trace.p[i, token].item(), u[i], P[i], h[i])
               for i, token in enumerate(round.drafted)]
    if round.kind != "correction" or trace.u is None:
        return numbers, None
    weight = 1 if trace.block is None else trace.block.P[n]
    return numbers, residual(weight * trace.p[n], trace.q[n])


def of_tree(round: TreeRound, trace: TreeTrace) -> tuple[list[Evidence], Tensor | None]:
    """Return the same of a round over a tree."""
    u = {test.node: test.u.item() for test in trace.tests}
    drawn = trace.tests != []
    last = round.path[-1] if round.path else TEXT
    numbers, rest = dict[int, Evidence](), None
    for parent in dict.fromkeys(round.parents):
        children = [i for i, other in enumerate(round.parents) if other == parent]
        p, q = trace.p[parent + 1], trace.q[children[0]]  # (n_vocab,)
        for i in children:
            x = round.drafted[i]
            numbers[i] = Evidence(q[x].item(), p[x].item(), u.get(i))
            if drawn:
                p, q = residual(p, q), without(q, torch.tensor([x], device=q.device))
        if drawn and round.kind == "correction" and parent == last:
            rest = p
    return [numbers[i] for i in range(len(numbers))], rest
