"""From logits to probabilities, against a slow and obvious version, and from those to a token."""
import itertools
import math
import random
from unittest import mock

import pytest
import torch

from decoding import GREEDY, Sampling
from decoding import random as randomness
from decoding.proof.reference import chi_square_p_value, plain_probs
from decoding.random import draw, uniform
from decoding.sampling import choose, keep_top_k, keep_top_p, to_probs

INF = math.inf
ANY = torch.Generator()
JUST_BELOW_ONE = math.nextafter(1.0, 0.0)
SETTINGS = [Sampling(t, k, p)
            for t, k, p in itertools.product((0, 5e-324, 1e-300, 0.3, 1.0, 2.0, 1e308),
                                             (None, 1, 2, 3, 7, 99),
                                             (None, 1e-9, 0.5, 0.75, 0.9, 1.0))]
TIED = [[0, 0, 0, 0, 0, 0, 0], [1, 2, 2, 1, 2, 1, 2], [-INF, 3, 3, -INF, 1, 1, 3],
        [-INF, 0, -INF, -INF, -INF, -INF, -INF], [-1e300, 1e300, 0, -1e300, 1e300, 5, 5],
        [700, 0, -700, 700, 0, -700, 1]]


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def same_uniform_everywhere(u):
    """Let torch's random numbers all be u: no seed is known for every u of these tests."""
    def constant(shape, *, dtype, **_):
        return torch.full(shape, u, dtype=dtype)

    return mock.patch.object(torch, "rand", constant)


def test_to_probs_is_the_slow_and_obvious_computation():
    numbers = random.Random(0)
    logits = TIED + [[numbers.gauss(0, 3) for _ in range(7)] for _ in range(20)]
    for setting in SETTINGS:
        found = to_probs(rows(*logits), setting)
        wanted = rows(*[plain_probs(row, setting) for row in logits])
        # the same tokens are kept, ties included
        assert torch.equal(found > 0, wanted > 0), setting
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12, msg=str(setting))


def test_every_row_is_a_distribution_whatever_the_temperature_and_the_dtype():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        logits = rows(*TIED).clamp(-6e4, 6e4).masked_fill(rows(*TIED) == -INF, -INF).to(dtype)
        for setting in SETTINGS:
            probs = to_probs(logits, setting)
            # nan fails, too
            assert (probs >= 0).all() and (probs[logits == -INF] == 0).all(), (dtype, setting)
            torch.testing.assert_close(probs.sum(-1), torch.ones(len(logits)).to(probs), rtol=0,
                                       atol=1e-6)


def test_probabilities_have_at_least_single_precision():
    for setting in (GREEDY, Sampling(), Sampling(0.5, 2, 0.9)):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            assert to_probs(torch.zeros(1, 5, dtype=dtype), setting).dtype == torch.float32
        assert to_probs(rows([1, 2, 3]), setting).dtype == torch.float64


def test_half_precision_logits_are_not_rounded_again():
    logits = torch.tensor([[0.1, 3.3, -2.7, 1.9]]).bfloat16()
    assert torch.equal(to_probs(logits, Sampling(0.7)), to_probs(logits.float(), Sampling(0.7)))


def test_temperature_0_is_one_hot_at_the_lowest_index_of_the_maximum():
    wide = torch.zeros(3, 50257)
    wide[1, 777:] = wide[2, 50256] = 5.0
    assert to_probs(wide, GREEDY).argmax(-1).tolist() == [0, 777, 50256]
    ordered = to_probs(wide, GREEDY).sort(-1, descending=True).values
    assert (ordered[:, :2] == torch.tensor([1.0, 0.0])).all()


def test_a_tiny_temperature_shares_between_tied_maxima_and_a_huge_one_between_all_tokens():
    for dtype in (torch.float32, torch.float64):
        logits = rows([1, 2, 2, -INF]).to(dtype)
        for temperature in (5e-324, 1e-300):
            assert to_probs(logits, Sampling(temperature)).tolist() == [[0, 0.5, 0.5, 0]]
        for temperature in (1e300, 1e308):
            torch.testing.assert_close(to_probs(logits, Sampling(temperature)),
                                       rows([1 / 3, 1 / 3, 1 / 3, 0]).to(dtype))


def test_top_k_keeps_exactly_k_and_of_tied_tokens_the_lower_ids():
    torch.testing.assert_close(keep_top_k(rows([0.2, 0.4, 0.2, 0.2]), 2),
                               rows([1 / 3, 2 / 3, 0, 0]))
    for k in range(1, 1001):
        if k < 20 or k % 97 == 0:
            kept = keep_top_k(torch.full((1, 1000), 1e-3), k)[0].nonzero().flatten()
            assert kept.tolist() == list(range(k))


def test_top_p_keeps_the_smallest_set_whose_mass_reaches_p():
    probs = rows([0.25, 0.5, 0.125, 0.125])  # sums of these are exact
    kept = {0.1: [1], 0.5: [1], 0.51: [0, 1], 0.75: [0, 1], 0.76: [0, 1, 2], 0.875: [0, 1, 2],
            0.9: [0, 1, 2, 3], 1.0: [0, 1, 2, 3]}
    for p, ids in kept.items():
        assert keep_top_p(probs, p)[0].nonzero().flatten().tolist() == ids, p
    torch.testing.assert_close(keep_top_p(probs, 0.75), rows([1 / 3, 2 / 3, 0, 0]))


def test_top_p_over_a_large_vocabulary_however_many_tokens_it_takes():
    numbers = random.Random(0)
    flat, peaked = ([numbers.gauss(0, spread) for _ in range(5000)] for spread in (0.1, 4))
    # each value 300 times and more: the last kept one is in a tie
    steps = [float(i // 300 % 7) for i in range(5000)]
    for logits in ([flat], [peaked], [steps], [[0.0] * 5000], [flat, peaked, steps]):
        for p in (0.01, 0.05003, 0.5003, 0.97, 0.9999):
            found = to_probs(rows(*logits), Sampling(top_p=p))
            wanted = rows(*[plain_probs(row, Sampling(top_p=p)) for row in logits])
            assert torch.equal(found > 0, wanted > 0), p
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_temperature_comes_first_then_top_k_then_top_p():
    logits = rows([0.4, 0.3, 0.2, 0.1]).log()
    # After top-k 2 the first token holds 4/7 = 0.57: enough for 0.5, though of all four it is less
    # than half.
    assert to_probs(logits, Sampling(1.0, top_k=2, top_p=0.5)).tolist() == [[1, 0, 0, 0]]
    # Temperature 1/2 squares the odds, 16 : 9 : 4 : 1, and the first token holds 16/30 = 0.53.
    assert to_probs(logits, Sampling(0.5, top_p=0.5)).tolist() == [[1, 0, 0, 0]]
    torch.testing.assert_close(to_probs(logits, Sampling(1.0, top_p=0.5)),
                               rows([4 / 7, 3 / 7, 0, 0]))


def test_rows_do_not_influence_each_other_and_the_logits_stay_as_they_are():
    logits = torch.randn(2, 3, 5, 11, generator=torch.Generator().manual_seed(0))
    for setting in (GREEDY, Sampling(), Sampling(0.7, 4, 0.8)):
        before = logits.clone()
        together = to_probs(logits, setting)
        assert torch.equal(logits, before) and together.shape == logits.shape
        for index in itertools.product(range(2), range(3), range(5)):
            torch.testing.assert_close(together[index], to_probs(logits[index], setting), rtol=0,
                                       atol=1e-7)


def test_draw_inverts_the_cumulative_distribution():
    probs = rows([0.25, 0, 0.5, 0.25])
    for u, token in ((0.0, 0), (math.nextafter(0.25, 0), 0), (0.25, 2),
                     (math.nextafter(0.75, 0), 2), (0.75, 3), (JUST_BELOW_ONE, 3)):
        with same_uniform_everywhere(u):
            assert draw(probs, ANY).tolist() == [token]
            assert draw(7 * probs, ANY).tolist() == [token]  # a row need not sum to one


def test_draw_never_leaves_the_support():
    hard = [[0, 0, 1, 0], [0, 1e-320, 0, 0], [0, 0.1, 0.2, 0], [0, 3e38, 3e38, 0], [1e-30, 0, 1, 0],
            [1, 0, 0, 1e-30], [0, 5e-324, 0, 0]]
    numbers = random.Random(0)
    hard += [[0, 0] + [numbers.random() for _ in range(7)] + [0, 0] for _ in range(200)]
    for row, dtype in itertools.product(hard, (torch.float32, torch.float64)):
        probs = rows(row).to(dtype)
        if probs.sum() > 0:  # 5e-324 is 0 in single precision
            for u in (0.0, 5e-324, 0.1, 0.5, JUST_BELOW_ONE):
                with same_uniform_everywhere(u):
                    (token,) = draw(probs, ANY).tolist()
                    assert 0 <= token < len(row) and probs[0, token] > 0, (row, u)


def test_draw_counts_agree_with_the_probabilities():
    probs = torch.tensor([0.05, 0.3, 0.0, 0.15, 0.5])
    counts = draw(probs.expand(20_000, 5), torch.Generator().manual_seed(0)).bincount(minlength=5)
    assert counts[2] == 0
    assert chi_square_p_value(counts[probs > 0].tolist(),
                              (20_000 * probs[probs > 0]).tolist()) > 1e-5


def test_draw_takes_one_token_per_row_each_with_its_own_randomness():
    tokens = draw(torch.ones(4, 50, 8), torch.Generator().manual_seed(0))
    assert tokens.shape == (4, 50) and tokens.dtype == torch.long
    assert len(set(map(tuple, tokens.tolist()))) == 4


def test_uniform_is_in_double_precision_and_below_one():
    u = uniform((100_000,), torch.Generator().manual_seed(0), torch.device("cpu"))
    assert u.dtype == torch.float64 and u.min() >= 0 and u.max() < 1
    assert (u != u.float()).any()  # not single precision made wider
    assert abs(u.mean() - 0.5) < 0.005


def test_choose_uses_no_randomness_when_greedy():
    probs = rows([0.2, 0.4, 0.4])
    assert choose(probs, GREEDY, None).tolist() == [1]  # no generator is needed
    with same_uniform_everywhere(0.9):
        assert choose(probs, Sampling(), ANY).tolist() == [2]


def test_a_new_generator_has_its_own_seed():
    assert len({randomness.new_generator().initial_seed() for _ in range(5)}) == 5


def test_sampling_refuses_what_means_nothing():
    for name, values in {"temperature": (-0.1, math.nan, INF, -INF), "top_k": (0, -3, 2.5),
                         "top_p": (0, -0.5, 1.0001, math.nan)}.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                Sampling(**{name: value})
    assert Sampling() == Sampling(1.0, None, None) and GREEDY.greedy and not Sampling(5e-324).greedy
    assert Sampling(0, 1, 1.0).greedy and Sampling(top_k=1, top_p=1)
