"""The second room of the museum: each mistake has another distribution than the target's."""
import pytest
from torch import tensor

from decoding.proof import more_mistakes
from decoding.proof.distributions import by_definition, by_enumeration, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, MemorylessModel
from decoding.random import draw, uniform
from decoding.sampling import GREEDY, Sampling

TARGET, DRAFT = HashModel(1), HashModel(2)
WANTED = by_definition(TARGET, 3)


@pytest.mark.parametrize("rule", [
    more_mistakes.bonus_by_argmax, more_mistakes.threshold_without_draw,
    more_mistakes.typical_acceptance, more_mistakes.same_number_for_test_and_residual])
def test_a_wrong_rule_is_noticed(rule):
    assert difference(by_enumeration(TARGET, DRAFT, 3, 2, rule=rule), WANTED) > 0.01


def first_token(p, q, rule):
    """What comes out first in a round of one drafted token, of two dice."""
    found = by_enumeration(MemorylessModel(p), MemorylessModel(q), 2, 1, rule=rule)
    return [round(sum(chance for text, chance in found.items() if text[0] == x), 12)
            for x in range(len(p))]


def test_the_distributions_by_hand():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
    # kept: a alone. Thrown away, 0.8: all of it goes to a, the only face that is missing
    assert first_token(p, q, more_mistakes.threshold_without_draw) == [1.0, 0.0, 0.0]
    # limit: min(0.3, 0.6 e^-1.03) = 0.214, so a and b are kept, and c's 0.3 is redrawn from p
    assert first_token(p, q, more_mistakes.typical_acceptance) == [0.35, 0.59, 0.06]
    p, q = [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]
    # c is rejected at u >= 1/2, and the residual is (1/2, 1/2, 0): always b, never a
    assert first_token(p, q, more_mistakes.same_number_for_test_and_residual) == [0.1, 0.5, 0.4]


def test_the_bonus_alone_is_the_favourite():
    target = MemorylessModel([0.6, 0.4])
    found = by_enumeration(target, target, 2, 1, rule=more_mistakes.bonus_by_argmax)
    assert {text: round(chance, 12) for text, chance in found.items()} == {(0, 0): 0.6,
                                                                           (1, 0): 0.4}


def test_shared_noise_is_right_for_each_drafted_token_and_wrong_for_the_text():
    drafter = more_mistakes.SharedNoise(DRAFT)
    alone = by_enumeration(DRAFT, drafter, 3, 2, rule=drafter.rule)
    assert difference(alone, by_definition(DRAFT, 3)) < 1e-12  # nothing is ever rejected
    assert difference(by_enumeration(TARGET, drafter, 3, 2, rule=drafter.rule), WANTED) > 0.01
    greedy = by_enumeration(TARGET, drafter, 3, 2, GREEDY, rule=drafter.rule)
    assert greedy == by_definition(TARGET, 3, GREEDY)


@pytest.mark.parametrize("n, gamma, sampling", [
    (3, 2, Sampling()), (3, 2, Sampling(0.5)), (3, 1, Sampling(top_k=2)),
    (4, 3, Sampling(top_k=2))])
def test_an_unlikely_token_may_end_a_draft_but_must_not_be_dropped(n, gamma, sampling):
    wanted = by_definition(TARGET, n, sampling)
    honest, dropping = (by_enumeration(TARGET, more_mistakes.CarefulDrafter(DRAFT, 0.4, keep), n,
                                       gamma, sampling) for keep in (True, False))
    assert difference(honest, wanted) < 1e-12
    assert difference(dropping, wanted) > 0.01


# The numbers that these rules are given

@pytest.mark.parametrize("below", [
    lambda u: u < 0.3, lambda u: 0.3 > u, lambda u: ~(u >= 0.3), lambda u: 2 * u < 0.6,
    lambda u: u / 0.5 < 0.6, lambda u: 1 - u > 0.7, lambda u: -u > -0.3, lambda u: 0.3 - u > 0,
    lambda u: u - 0.3 < 0, lambda u: u + 1 < 1.3, lambda u: (u < 0.5) & (u < 0.3) & (u < 0.4),
    lambda u: u.item() < 0.3, lambda u: u.tolist()[0] < 0.3, lambda u: u[0] < 0.3,
    lambda u: u.squeeze() < 0.3, lambda u: u[None].expand(2, 1)[1] < 0.3, lambda u: u <= 0.3])
def test_a_comparison_divides_the_interval(below):
    found = distribution_of(lambda generator: bool(below(uniform((1,), generator, None))))
    assert found == {True: pytest.approx(0.3), False: pytest.approx(0.7)}


def test_a_number_can_be_0_and_nothing_below():
    def answers(test):
        return distribution_of(lambda generator: bool(test(uniform((1,), generator, None))))

    assert answers(lambda u: u < 0) == {False: 1}
    assert answers(lambda u: u >= 0) == {True: 1}
    assert answers(lambda u: u <= 0) == {True: 0, False: 1}
    assert answers(lambda u: u > 0) == {True: 1, False: 0}
    assert answers(lambda u: (u > 0) & (u <= 0)) == {False: 1}  # both are about the same u
    assert answers(lambda u: (u <= 0) & (u < 0.5)) == {True: 0, False: 1}
    assert answers(lambda u: 0 * u < 0) == {False: 1}
    assert answers(lambda u: u < float("nan")) == {False: 1}
    assert answers(lambda u: u < float("inf")) == {True: 1}


def test_a_number_that_was_compared_stays_where_it_is():
    def program(generator):
        u = uniform((2,), generator, None)
        return tuple((u < 0.5).tolist()), tuple((u < 0.25).tolist())

    found = distribution_of(program)
    assert len(found) == 9 and sum(found.values()) == pytest.approx(1)
    assert all(first >= second for a, b in found for first, second in zip(a, b))
    assert found[(True, True), (True, False)] == pytest.approx(1 / 16)


def test_a_draw_of_one_row_and_of_none_at_all():
    found = distribution_of(lambda generator: draw(tensor([0.25, 0.0, 0.75]), generator).item())
    assert found == {0: 0.25, 2: 0.75}
    for row in ([0.0, 0.0], [float("nan"), 1.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match="draw needs a row of probabilities"):
            distribution_of(lambda generator, row=row: draw(tensor([row]), generator))
