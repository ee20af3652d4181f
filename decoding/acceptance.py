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


class Block(NamedTuple):
    """What the block rule compares; index i is about the first i drafted tokens."""

    P: Tensor  # (k + 1,) the probability that they are kept, whatever becomes of the later ones
    h: Tensor  # (k + 1,) the probability to end with them, unless more are kept


class Acceptance(NamedTuple):
    n: Tensor  # (1,) how many drafted tokens are kept
    token: Tensor  # (1,) the token that follows them: a correction, or the bonus when all are kept
    u: Tensor | None = None  # (k,) the uniforms of the tests, to be shown in a trace
    block: Block | None = None  # where the tokens are judged together: what u was compared with


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


def accept_block(drafted: Tensor, q: Tensor, p: Tensor, generator: Generator) -> Acceptance:
    """Keep the longest stretch x_1 .. x_i with u_i < h_i; then draw from max(0, P_i p - q).

    Sun et al. 2024 (arXiv 2403.10444), Algorithm 2, block verification. The emitted tokens have the
    target's distribution, and on average no fewer are kept than by `accept_sampled`, whatever the
    draft. A test that fails stops nothing: the last one that is passed decides.
    """
    k = len(drafted)
    block = judge(drafted, q, p)
    u = uniform((k,), generator, p.device)
    n = k - leading(~(u < block.h[1:]).flip(0))  # all but those after the last test that is passed
    q = F.pad(q, (0, 0, 0, 1))
    return Acceptance(n, draw(residual(block.P[n, None] * p[n], q[n]), generator), u, block)


def judge(drafted: Tensor, q: Tensor, p: Tensor) -> Block:
    """Return P and h of Sun et al. 2024, for each length i = 0 .. k of a kept stretch.

    P_0 = 1, P_i = min(1, P_i-1 p(x_i) / q(x_i)) with p and q of the position of x_i, and
    h_i = R_i / (R_i + 1 - P_i), R_i = sum_x max(0, P_i p(x) - q(x)) with those after x_i. Nothing
    is drafted after x_k: q = 0 there, so h_k = R_k = P_k.
    """
    x = drafted[:, None]  # (k, 1)
    P = [torch.ones_like(p[0, :1])]  # (1,) each
    for ratio in p[:len(x)].gather(1, x) / q.gather(1, x):
        P.append((P[-1] * ratio).clamp(max=1))
    kept = torch.cat(P)  # (k + 1,)
    R = (kept[:, None] * p - F.pad(q, (0, 0, 0, 1))).clamp(min=0).sum(-1)  # (k + 1,)
    total = R + 1 - kept
    # 0/0 is where P_i = 1 and p = q: the next token is kept for certain, so any h_i will do
    return Block(kept, torch.where(total > 0, R / total, 1))


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
