"""The two rules of acceptance, on hand-made numbers and by enumeration of what chance can do."""
import math
import random

import pytest
import torch

from decoding.acceptance import accept_greedy, accept_sampled, leading, residual
from decoding.proof import mistakes
from decoding.proof.enumerate import distribution_of
from decoding.random import draw

JUST_BELOW_ONE = math.nextafter(1.0, 0.0)
PAPER_P, PAPER_Q = [0.6, 0.4], [0.8, 0.2]


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def ids(*values):
    return torch.tensor(values, dtype=torch.long)


def one_hot(token, n_vocab):
    return [float(i == token) for i in range(n_vocab)]


def some_rows(n, seed, zeros=False):
    numbers = random.Random(seed)
    table = [[numbers.random() * (not zeros or numbers.random() < 0.7) for _ in range(3)]
             for _ in range(n)]
    for row in table:
        row[numbers.randrange(3)] += 0.1
    return [[x / sum(row) for x in row] for row in table]


class Always:
    """A generator whose every uniform comes out as u."""

    def __init__(self, u):
        self.u = u

    def uniform(self, shape):
        return torch.full(shape, self.u, dtype=torch.float64)

    def draw(self, probs):
        cumulative = probs.cumsum(-1)
        return torch.searchsorted(cumulative, self.u * cumulative[..., -1:], right=True).squeeze(-1)


def verdict(rule, drafted, q, p, u=0.5):
    """(accepted, the token after them) when every uniform comes out as u."""
    n, token, *_ = rule(ids(*drafted), rows(*q) if q else rows(*p)[:0], rows(*p), Always(u))
    return n.item(), token.item()


def distribution_of_emitted(rule, p, q):
    """The distribution of (accepted, first emitted token).

    k tokens are drawn from the rows of q and put to the rule.
    """
    def program(generator):
        drafted = torch.cat([draw(row[None], generator) for row in rows(*q)])
        n, token, *_ = rule(drafted, rows(*q), rows(*p), generator)
        return n.item(), (drafted[:n.item()].tolist() + token.tolist())[0]
    return distribution_of(program)


def share(probabilities, token):
    return sum(chance for (_, first), chance in probabilities.items() if first == token)


def test_greedy_keeps_drafts_up_to_the_first_that_is_not_the_targets_choice():
    p = [one_hot(token, 5) for token in (3, 1, 4, 2)]
    assert verdict(accept_greedy, [3, 1, 4], p[:3], p) == (3, 2)  # all: and the bonus
    assert verdict(accept_greedy, [3, 1, 0], p[:3], p) == (2, 4)
    # the 4 after the mistake does not count
    assert verdict(accept_greedy, [3, 0, 4], p[:3], p) == (1, 1)
    assert verdict(accept_greedy, [0, 1, 4], p[:3], p) == (0, 3)
    assert verdict(accept_greedy, [], [], p[:1]) == (0, 3)


def test_greedy_takes_the_lower_id_of_a_tie_and_needs_no_generator():
    p = [[0.1, 0.4, 0.4, 0.1], [0.25, 0.25, 0.25, 0.25]]
    assert verdict(accept_greedy, [1], p[:1], p) == (1, 0)
    assert verdict(accept_greedy, [2], p[:1], p) == (0, 1)


def test_leading_counts_up_to_the_first_failure():
    for passed, n in (([], 0), ([1], 1), ([0], 0), ([1, 1, 0], 2), ([0, 1, 1], 0), ([1, 0, 1], 1),
                      ([1, 1, 1], 3)):
        assert leading(torch.tensor(passed, dtype=torch.bool)).tolist() == [n]


def test_residual_is_what_the_draft_leaves_of_the_target():
    torch.testing.assert_close(residual(rows(PAPER_P), rows(PAPER_Q)), rows([0, 1]))
    torch.testing.assert_close(residual(rows([0.5, 0.3, 0.2]), rows([0.2, 0.2, 0.6])),
                               rows([0.75, 0.25, 0]))
    # disjoint: all of p
    torch.testing.assert_close(residual(rows([0.5, 0.5, 0]), rows([0, 0, 1])), rows([0.5, 0.5, 0]))
    # nothing drafted: p
    assert torch.equal(residual(rows([0.3, 0.7]), rows([0, 0])), rows([0.3, 0.7]))
    many = residual(rows(*some_rows(50, 1)), rows(*some_rows(50, 2)))
    torch.testing.assert_close(many.sum(-1), torch.ones(50).double())
    assert (many >= 0).all()


def test_where_rounding_leaves_no_residual_p_itself_is_the_answer():
    p = rows([0.25, 0.75])
    assert torch.equal(residual(p, p), p)
    # a q that sums to a little more than one can be above p everywhere
    assert torch.equal(residual(p, p * (1 + 1e-15)), p)
    assert verdict(accept_sampled, [1], [[0.25, 0.7500001]], [[0.25, 0.75], [1, 0]],
                   u=JUST_BELOW_ONE) == (0, 1)


def test_u_is_compared_strictly():
    p, q = [[0.25, 0.75], [1, 0]], [[0.5, 0.5]]  # p/q is exactly 1/2 for token 0
    assert verdict(accept_sampled, [0], q, p, u=0.5) == (0, 1)
    assert verdict(accept_sampled, [0], q, p, u=math.nextafter(0.5, 0)) == (1, 0)


def test_what_the_target_never_says_is_never_accepted_and_what_it_likes_better_always_is():
    p, q = [[0, 0.5, 0.5], [1, 0, 0]], [[0.4, 0.2, 0.4]]
    assert verdict(accept_sampled, [0], q, p, u=0.0) == (0, 1)
    assert verdict(mistakes.less_or_equal, [0], q, p, u=0.0) == (1, 0)  # the mistake this is about
    assert verdict(accept_sampled, [1], q, p, u=JUST_BELOW_ONE) == (1, 0)
    assert verdict(accept_sampled, [2], [[0, 0.5, 0.5]], p, u=JUST_BELOW_ONE) == (1, 0)  # p = q


def test_each_emitted_token_is_distributed_as_p():
    for seed in range(10):
        for k in (1, 2, 3):
            p = some_rows(k + 1, seed, zeros=seed % 2)
            q = some_rows(k, 100 + seed, zeros=seed % 3 == 0)
            found = distribution_of_emitted(accept_sampled, p, q)
            assert abs(sum(found.values()) - 1) < 1e-12
            assert all(abs(share(found, x) - p[0][x]) < 1e-12 for x in range(3)), (seed, k)
            # Leviathan et al., Theorem 3.5 and Corollary 3.6: the probability that the first draft
            # is accepted.
            accepted = sum(chance for (n, _), chance in found.items() if n > 0)
            assert abs(accepted - sum(map(min, p[0], q[0]))) < 1e-12


def test_a_draft_that_is_certain_is_accepted_with_the_targets_probability():
    found = distribution_of_emitted(accept_sampled, [[0.2, 0.3, 0.5], [1, 0, 0]], [one_hot(1, 3)])
    assert found == pytest.approx({(1, 1): 0.3, (0, 0): 0.2, (0, 2): 0.5}, abs=1e-12)


def test_equal_p_and_q_are_never_rejected_and_disjoint_ones_always():
    p = some_rows(4, 0)
    equal = distribution_of_emitted(accept_sampled, p, p[:3])
    disjoint = distribution_of_emitted(accept_sampled, [[0.6, 0.4, 0]] * 2, [[0, 0, 1]])
    assert {n for n, _ in equal} == {3} and {n for n, _ in disjoint} == {0}


def test_the_two_famous_mistakes_give_the_numbers_they_are_known_for():
    def first_token(rule, q):
        found = distribution_of_emitted(rule, [PAPER_P] * 2, [q])
        return [round(share(found, x), 12) for x in (0, 1)]
    assert first_token(accept_sampled, PAPER_Q) == [0.6, 0.4]
    assert first_token(mistakes.redraw_from_p, PAPER_Q) == [0.72, 0.28]


def test_the_rule_draws_one_uniform_for_each_draft_and_shows_them():
    generator, twin = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    p = rows(*some_rows(5, 0))
    u = accept_sampled(ids(0, 1, 2, 0), p[:4], p, generator).u
    assert torch.equal(u, torch.rand(4, generator=twin, dtype=torch.float64))
    assert len(set(u.tolist())) == 4


def test_rules_leave_their_arguments_alone():
    drafted, q, p = ids(0, 1, 2), rows(*some_rows(3, 1)), rows(*some_rows(4, 2))
    before = drafted.clone(), q.clone(), p.clone()
    for rule in (accept_greedy, accept_sampled):
        rule(drafted, q, p, torch.Generator().manual_seed(0))
        assert all(map(torch.equal, (drafted, q, p), before))
