"""The closed forms against the paper's numbers, against a plain sum, and against the loop."""
import pytest

from decoding import Sampling, speculative_rounds
from decoding.acceptance import accept_sampled
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import MemorylessModel
from decoding.theory import (
    expected_accepted_per_round,
    expected_speedup,
    expected_tokens_per_round,
)


def test_the_numbers_everyone_quotes():
    assert expected_tokens_per_round(0.8, 4) == pytest.approx(3.3616, abs=1e-12)
    assert expected_accepted_per_round(0.8, 4) == pytest.approx(2.3616, abs=1e-12)
    assert expected_speedup(0.8, 4, c=0.1) == pytest.approx(2.401, abs=5e-4)
    assert expected_speedup(0.8, 4, c=0.1, v=1.4) == pytest.approx(3.3616 / 1.8, abs=1e-12)


def test_tokens_per_round_is_the_mean_over_what_can_happen():
    for alpha in (0.0, 0.3, 0.999, 1.0):
        for gamma in range(6):
            # i accepted, then a rejection
            stopped = sum((i + 1) * alpha**i * (1 - alpha) for i in range(gamma))
            mean = stopped + (gamma + 1) * alpha**gamma
            assert expected_tokens_per_round(alpha, gamma) == pytest.approx(mean, abs=1e-12)
            if alpha < 1:
                closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
                assert expected_tokens_per_round(alpha, gamma) == pytest.approx(closed)


def test_the_limits():
    for gamma in range(6):
        assert expected_tokens_per_round(0.0, gamma) == 1
        assert expected_tokens_per_round(1.0, gamma) == gamma + 1
    assert expected_speedup(0.7, 0, c=0.3) == 1  # nothing drafted, nothing gained
    assert expected_speedup(1.0, 4, c=0.0) == 5
    # a draft that is never right costs
    assert expected_speedup(0.0, 4, c=0.1) == pytest.approx(1 / 1.4)


def test_the_loop_obeys_the_closed_form_where_its_assumptions_hold():
    # The same p and q after every text: each draft is accepted with probability alpha = sum of
    # min(p, q), independently.
    target, draft = MemorylessModel([0.5, 0.3, 0.2]), MemorylessModel([0.2, 0.2, 0.6])
    for gamma in range(4):
        def emitted_in_one_round(generator, gamma=gamma):
            rounds = speculative_rounds(target, draft, [0], gamma + 1, gamma=gamma,
                                        rule=accept_sampled, sampling=Sampling(),
                                        generator=generator)
            return len(next(rounds).emitted)
        mean = sum(n * chance for n, chance in distribution_of(emitted_in_one_round).items())
        assert mean == pytest.approx(expected_tokens_per_round(0.6, gamma), abs=1e-12)


def test_what_is_no_probability_no_count_or_no_cost_is_refused():
    for alpha, gamma in ((-0.1, 4), (1.1, 4), (float("nan"), 4), (0.5, -1)):
        for form in (expected_tokens_per_round, expected_accepted_per_round,
                     lambda a, g: expected_speedup(a, g, 0.1)):
            with pytest.raises(ValueError):
                form(alpha, gamma)
    for c, v in ((-0.1, 1.0), (0.1, 0.0), (0.1, -1.0)):
        with pytest.raises(ValueError, match="cost"):
            expected_speedup(0.5, 4, c, v)
