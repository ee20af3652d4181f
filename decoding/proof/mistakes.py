"""Rules and drafters with the mistakes that public implementations have made. The tests must notice every one of them.

A rule takes (drafted, q, p, generator) as `decoding.acceptance` says; each differs from `accept_sampled` in one thing.
"""
import torch
import torch.nn.functional as F

from decoding.acceptance import Acceptance, leading, residual
from decoding.drafters import ModelDrafter
from decoding.feed import NOTHING, feed
from decoding.random import draw, uniform
from decoding.sampling import choose, to_probs
from decoding.speculative import settle


def ratios(drafted, q, p):
    x = drafted[:, None]
    return (p[: len(drafted)].gather(1, x) / q.gather(1, x)).squeeze(1)


def pad(q):
    return F.pad(q, (0, 0, 0, 1))


def redraw_from_p(drafted, q, p, generator):
    """After a rejection a token from p, not from the residual: what the draft likes comes too often."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(p[n], generator))


def softmax_residual(drafted, q, p, generator):
    """The residual is made to sum to one by a softmax, which gives every token a share."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    left = (p[n] - pad(q)[n]).clamp(min=0).softmax(-1)
    return Acceptance(n, draw(torch.where(n == len(drafted), p[n], left), generator))


def residual_without_clamp(drafted, q, p, generator):
    """|p - q| in place of max(0, p - q)."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw((p[n] - pad(q)[n]).abs(), generator))


def residual_of_the_next_place(drafted, q, p, generator):
    """Off by one: p of the rejected place, q of the place behind it."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[(n + 1).clamp(max=len(drafted))]), generator))


def bonus_from_residual(drafted, q, p, generator):
    """After full acceptance the residual of the last place, where the bonus belongs to p."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], torch.cat([q, q[-1:], pad(q)[-1:]])[n]), generator))


def one_uniform_for_all(drafted, q, p, generator):
    """One random number for the whole round: the tests are no longer independent."""
    n = leading(uniform((1,), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def count_all_passed(drafted, q, p, generator):
    """Counts passed tests, also those behind the first failure."""
    n = (uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p)).sum(0, keepdim=True)
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def ratio_upside_down(drafted, q, p, generator):
    """q/p in place of p/q."""
    n = leading(uniform((len(drafted),), generator, p.device) < 1 / ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def less_or_equal(drafted, q, p, generator):
    """u <= p/q: with u = 0, which is rare but allowed, a token the target can never write is accepted."""
    n = leading(uniform((len(drafted),), generator, p.device) <= ratios(drafted, q, p))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def greedy_with_soft_ratio(drafted, q, p, generator):
    """"Greedy" that accepts by chance: a drafted token stays although it is not the target's first choice."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    return Acceptance(n, p[n].argmax(-1))


class OneNumberForEveryRound:
    """Re-seeds in every round: the test of a place meets the number that it met in the round before. An object for one run."""

    def __init__(self):
        self.numbers = []

    def __call__(self, drafted, q, p, generator):
        self.numbers += [uniform((1,), generator, p.device) for _ in range(len(drafted) - len(self.numbers))]
        passed = [u < ratio for u, ratio in zip(self.numbers, ratios(drafted, q, p).split(1))]
        n = leading(torch.cat([drafted[:0].bool(), *passed]))
        return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def bonus_after_end_of_text(n, token, drafted, eos):
    """In place of `settle`: cuts after an accepted end-of-text, and appends the extra token all the same."""
    ids, kept, extra, kind = settle(n, token, drafted, eos)
    return (ids, kept, int(token), "bonus") if extra is None else (ids, kept, extra, kind)


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
            drafted = torch.cat([drafted, choose(to_probs(logits, self.drawn), self.drawn, generator)])
        return drafted, torch.cat(q)


class ForgetfulDrafter(ModelDrafter):
    """Feeds the last token only. After full acceptance the one before it was never read: the law stays, acceptance falls."""

    def propose(self, tokens, k, sampling, generator):
        return super().propose(tokens[: self.cache.length] + tokens[-1:], k, sampling, generator)
