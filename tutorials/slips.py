"""Slips of the pen in a rule: they are no exhibits of the museum, but learners make them."""
from collections.abc import Callable

from torch import Tensor

from decoding.acceptance import Acceptance, leading
from decoding.acceptance import residual as right_residual
from decoding.proof.mistakes import pad
from decoding.proof.mistakes import ratios as right_ratios
from decoding.random import draw, uniform
from decoding.speculative import Rule
from tutorials.grading import Mistake


def row_of_n(p: Tensor, q: Tensor, n: Tensor) -> Tensor:
    """Return what a rejection at n is right to draw from."""
    return right_residual(p[n], q[n])


def bonus_of_k(p: Tensor) -> Tensor:
    """Return what the bonus is right to be drawn from."""
    return p[-1:]


def with_slip(ratios: Callable[..., Tensor] = right_ratios,
              residual: Callable[..., Tensor] = row_of_n,
              bonus: Callable[[Tensor], Tensor] = bonus_of_k) -> Rule:
    """Return a rule that is right but for one of its three parts.

    ratios: (drafted, q, p) -> (k,). residual: (p, q, n) -> (1, n_vocab), q with a row of zeros
    more. bonus: p -> (1, n_vocab).
    """
    def rule(drafted, q, p, generator):
        n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
        row = bonus(p) if n == len(drafted) else residual(p, pad(q), n)
        return Acceptance(n, draw(row, generator))
    return rule


def p_of_the_drafted(drafted: Tensor, q: Tensor, p: Tensor) -> Tensor:
    """Return p(x) alone. (k,)"""
    return p[:len(drafted)].gather(1, drafted[:, None])[:, 0]


SLIPS = [
    Mistake(with_slip(residual=lambda p, q, n: (p[n] - q[n]).softmax(-1)), "the residual is a "
            "softmax of p - q, which gives every token a share",
            "6 Exhibit 2. A softmax for the residual"),
    Mistake(with_slip(residual=lambda p, q, n: (q[n] - p[n]).clamp(min=0)), "the residual is made "
            "of q - p: that is what the draft has too much of", "3 The rule"),
    Mistake(with_slip(residual=lambda p, q, n: right_residual(p[n + 1], q[n + 1])), "the token "
            "after a rejection is drawn from the row after it: it stands in the place of the "
            "rejected one", "3 The rule as code"),
    Mistake(with_slip(p_of_the_drafted), "u is compared with p alone: that is the rule for a draft "
            "that is sure, q = 1", "3 Why the ratio needs the q that was really used"),
    Mistake(with_slip(lambda drafted, q, p: right_ratios(drafted, q, p[1:])), "the ratio takes p "
            "from the row after the drafted token's", "3 The rule as code"),
    Mistake(with_slip(bonus=lambda p: p[-2:][:1]), "the bonus is drawn from p[k - 1], the row of "
            "the last drafted token: its own is p[k]", "3 The rule as code"),
]
