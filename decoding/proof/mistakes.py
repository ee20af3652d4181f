"""Mistakes that programs have made, or could. The tests must notice every one of them.

A rule takes (drafted, q, p, generator) as `decoding.acceptance` says. Each differs from
`accept_sampled` in one thing.
"""
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F

from decoding.acceptance import Acceptance, leading, residual
from decoding.drafters import ModelDrafter
from decoding.feed import NOTHING, feed
from decoding.random import draw, uniform
from decoding.result import Round
from decoding.sampling import choose, to_probs


def ratios(drafted, q, p):
    """Return p(x)/q(x) of each drafted token x. (k,)"""
    x = drafted[:, None]
    return (p[: len(drafted)].gather(1, x) / q.gather(1, x)).squeeze(1)


def pad(q):
    """Add a row of zeros for the bonus: there the residual is p. (k + 1, n_vocab)"""
    return F.pad(q, (0, 0, 0, 1))


def redraw_from_p(drafted, q, p, generator):
    """Draw from p after a rejection, not from the residual: the draft's taste comes through."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(p[n], generator))


def softmax_residual(drafted, q, p, generator):
    """Make the residual sum to one by a softmax, which gives every token a share."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    left = (p[n] - pad(q)[n]).clamp(min=0).softmax(-1)
    return Acceptance(n, draw(torch.where(n == len(drafted), p[n], left), generator))


def residual_without_clamp(drafted, q, p, generator):
    """Draw from |p - q|, not from max(0, p - q)."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw((p[n] - pad(q)[n]).abs(), generator))


def residual_of_the_next_position(drafted, q, p, generator):
    """Subtract the wrong row: p of the rejected position, q of the position after it."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    next_q = pad(q)[(n + 1).clamp(max=len(drafted))]
    return Acceptance(n, draw(residual(p[n], next_q), generator))


def bonus_from_residual(drafted, q, p, generator):
    """Draw the bonus from p minus the last q, although it belongs to p alone."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    repeated_q = torch.cat([q, q[-1:], pad(q)[-1:]])
    return Acceptance(n, draw(residual(p[n], repeated_q[n]), generator))


def one_uniform_for_all(drafted, q, p, generator):
    """Draw one random number for the whole round: the tests are no longer independent."""
    n = leading(uniform((1,), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def count_all_passed(drafted, q, p, generator):
    """Count all passed tests, also those after the first failure."""
    passed = uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p)
    n = passed.sum(0, keepdim=True)
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def ratio_upside_down(drafted, q, p, generator):
    """Compare u with q/p, not with p/q."""
    n = leading(uniform((len(drafted),), generator, p.device) < 1 / ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def less_or_equal(drafted, q, p, generator):
    """Accept if u <= p/q. With u = 0, which is rare but allowed, p = 0 is accepted."""
    n = leading(uniform((len(drafted),), generator, p.device) <= ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def greedy_with_soft_ratio(drafted, q, p, generator):
    """Accept by chance in a greedy run: a token can stay that is not the target's first choice."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, p[n].argmax(-1))


class OneNumberForEveryRound:
    """Seeds anew in every round of a run: the i-th test always meets the same number."""

    def __init__(self):
        self.generator, self.numbers = None, []

    def __call__(self, drafted, q, p, generator):
        if generator is not self.generator:  # another run
            self.generator, self.numbers = generator, []
        while len(self.numbers) < len(drafted):
            self.numbers.append(uniform((1,), generator, p.device))
        tests = zip(self.numbers, ratios(drafted, q, p).split(1), strict=False)
        passed = [u < ratio for u, ratio in tests]
        n = leading(torch.cat([drafted[:0].bool(), *passed]))
        return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def bonus_after_end_of_text(rounds: Iterable[Round], eos: int | None) -> Iterator[Round]:
    """Look for end-of-text at the end of a round only: an accepted one has a bonus after it.

    rounds: of a loop that knows nothing of end-of-text.
    """
    for round in rounds:
        yield round
        if round.emitted[-1] == eos:
            return


class TwoFacedDrafter(ModelDrafter):
    """Draws its tokens under one Sampling and reports the q of another."""

    def __init__(self, model, drawn, reported):
        super().__init__(model)
        self.drawn, self.reported = drawn, reported

    def propose(self, tokens, k, sampling, generator):
        drafted, q = NOTHING, []
        for _ in range(k):
            logits = feed(self.model, self.cache, tokens, drafted)
            q.append(to_probs(logits, self.reported))
            token = choose(to_probs(logits, self.drawn), self.drawn, generator)
            drafted = torch.cat([drafted, token])
        return drafted, torch.cat(q)


class ForgetfulDrafter(ModelDrafter):
    """Feeds the last token only. After full acceptance the one before it is never read.

    The distribution stays right, and acceptance falls.
    """

    def propose(self, tokens, k, sampling, generator):
        return super().propose(tokens[: self.cache.length] + tokens[-1:], k, sampling, generator)
