"""Mistakes with the block rule, `accept_block`. The tests must notice every one of them.

A rule takes (drafted, q, p, generator) as `decoding.acceptance` says. Each differs from
`accept_block` in one thing.
"""
import torch
import torch.nn.functional as F

from decoding.acceptance import (
    Acceptance,
    Block,
    accept_block,
    accept_sampled,
    judge,
    leading,
    residual,
)
from decoding.proof.mistakes import pad, ratios
from decoding.random import draw, uniform


def finish(block, passed, q, p, generator):
    """Do what `accept_block` does once it is known which tests are passed."""
    n = len(passed) - leading(~passed.flip(0))
    return Acceptance(n, draw(residual(block.P[n, None] * p[n], pad(q)[n]), generator), None, block)


def residual_of_the_token_rule(drafted, q, p, generator):
    """Draw from max(0, p - q) after the stretch that is kept, not from max(0, P p - q)."""
    block = judge(drafted, q, p)
    passed = uniform((len(drafted),), generator, p.device) < block.h[1:]
    n = len(drafted) - leading(~passed.flip(0))
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator), None, block)


def stop_at_the_first_failure(drafted, q, p, generator):
    """Stop at the first failed test, as the token rule does; later ones would have counted."""
    block = judge(drafted, q, p)
    n = leading(uniform((len(drafted),), generator, p.device) < block.h[1:])
    return Acceptance(n, draw(residual(block.P[n, None] * p[n], pad(q)[n]), generator), None, block)


def cap_at_the_end(drafted, q, p, generator):
    """Multiply all the ratios and cap the product at 1 only then, not after each factor."""
    P = F.pad(ratios(drafted, q, p).cumprod(0), (1, 0), value=1.0).clamp(max=1)
    R = (P[:, None] * p - pad(q)).clamp(min=0).sum(-1)
    block = Block(P, torch.where(R + 1 - P > 0, R / (R + 1 - P), 1))
    passed = uniform((len(drafted),), generator, p.device) < block.h[1:]
    return finish(block, passed, q, p, generator)


def compare_with_P(drafted, q, p, generator):
    """Compare u with P_i, the wanted probability to keep i tokens or more, not with h_i."""
    block = judge(drafted, q, p)
    passed = uniform((len(drafted),), generator, p.device) < block.P[1:]
    return finish(block, passed, q, p, generator)


def one_uniform_for_the_block(drafted, q, p, generator):
    """Draw one random number for all the tests of a block."""
    block = judge(drafted, q, p)
    passed = uniform((1,), generator, p.device) < block.h[1:]
    return finish(block, passed, q, p, generator)


def ones_for_a_lookup_draft(drafted, q, p, generator):
    """Take q = 1 for a draft that was copied: right for its token, wrong for all the others.

    It should be a one-hot row. A row of ones leaves nothing of the residual.
    """
    return accept_block(drafted, torch.ones_like(q), p, generator)


def token_rule_up_to_two(drafted, q, p, generator):
    """Take the token rule for blocks of one and two, where the block rule is said to be the same.

    It is the same for one. The distribution stays right, and fewer tokens are kept.
    """
    rule = accept_sampled if len(drafted) <= 2 else accept_block
    return rule(drafted, q, p, generator)
