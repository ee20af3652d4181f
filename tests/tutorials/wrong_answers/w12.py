"""Plausible wrong answers to the exercises of notebook 12."""
from decoding.acceptance import accept_sampled
from decoding.proof import mistakes_of_blocks
from decoding.proof.enumerate import distribution_of
from decoding.random import draw


def chances_to_keep(ratios):
    """Each ratio is capped by itself, as in the token rule."""
    P, chances = 1.0, []
    for ratio in ratios:
        P *= min(1.0, ratio)
        chances.append(P)
    return chances


def chance_to_end_here(P, p, q):
    """"P is the chance to keep so many, so compare u with it.\""""
    return P


def how_many_stay(u, h):
    """Leaves at the first failure, as the token rule does."""
    n = 0
    while n < len(u) and u[n] < h[n]:
        n += 1
    return n


def tokens_of_a_round(p, q, gamma):
    """The expectation of the token rule, 1 + alpha + ... + alpha^gamma."""
    def program(generator):
        rows = q.expand(gamma, -1)
        drafted = draw(rows, generator)
        return accept_sampled(drafted, rows, p.expand(gamma + 1, -1), generator).n.item()

    return 1 + sum(n * chance for n, chance in distribution_of(program).items())


my_block_rule = mistakes_of_blocks.residual_of_the_token_rule
