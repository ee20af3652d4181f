"""The rules that decide which drafted tokens stay. A rule is a function of tensors:

    rule(drafted, q, p, generator) -> Acceptance

    drafted  (k,)              ids; k may be 0
    q        (k, n_vocab)      q[i] is the very distribution that drafted[i] was drawn from
    p        (k + 1, n_vocab)  p[i] is the target's distribution at the same position, p[k] the one
                               after the last drafted token
"""
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from decoding.random import Generator, draw, uniform


class Acceptance(NamedTuple):
    n: Tensor  # (1,) how many drafted tokens are kept
    token: Tensor  # (1,) the token that follows them: a correction, or the bonus when all are kept
    u: Tensor | None = None  # (k,) the uniforms of the tests, to be shown in a trace


def accept_greedy(drafted: Tensor, q: Tensor, p: Tensor, generator: Generator) -> Acceptance:
    """Keep drafted tokens while each is the target's own choice; then take the target's choice."""
    choice = p.argmax(-1)  # (k + 1,)
    n = leading(drafted == choice[:-1])
    return Acceptance(n, choice[n])


def accept_sampled(drafted: Tensor, q: Tensor, p: Tensor, generator: Generator) -> Acceptance:
    """Keep drafted token x while u < p(x)/q(x); then draw from the residual.

    Leviathan et al. 2023, Algorithm 1. Every emitted token is distributed as if it had been drawn
    from p (their Appendix A.1). u < 1, so p(x) >= q(x) always passes; u >= 0, so p(x) = 0 never
    does.
    """
    k = len(drafted)
    x = drafted[:, None]  # (k, 1)
    ratio = (p[:k].gather(1, x) / q.gather(1, x)).squeeze(1)  # (k,)
    u = uniform((k,), generator, p.device)
    n = leading(u < ratio)
    q = F.pad(q, (0, 0, 0, 1))  # after the last drafted token q = 0: the residual is p, the bonus
    return Acceptance(n, draw(residual(p[n], q[n]), generator), u)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Return max(0, p - q), normalised: the part of p that the draft does not cover.

    p, q: (..., n_vocab).

    Leviathan et al. 2023, section 2.3; Chen et al. 2023, Theorem 1. A rejection means that p < q
    somewhere, so p > q somewhere else; where rounding hides that and nothing is left, p itself is
    the answer.
    """
    left = (p - q).clamp(min=0)
    total = left.sum(-1, keepdim=True)
    return torch.where(total > 0, left / total, p)


def leading(passed: Tensor) -> Tensor:
    """Count the tests that were passed before the first failure. (k,) -> (1,)"""
    return passed.cumprod(0).sum(0, keepdim=True)
