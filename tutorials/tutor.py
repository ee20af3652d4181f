"""The museum as a tutor: what the check says to a rule that makes one of the known mistakes."""
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch

from decoding.acceptance import Acceptance, accept_sampled
from decoding.proof import mistakes, more_mistakes
from decoding.proof.distributions import Texts, by_definition, by_enumeration
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel
from decoding.proof.uniforms import CannotFollow
from decoding.random import draw
from tutorials.grading import Mistake, blank, check
from tutorials.slips import SLIPS

RULES = [
    Mistake(mistakes.redraw_from_p, "a rejected token is redrawn from p",
            "3 Why not redraw from p?"),
    Mistake(mistakes.softmax_residual, "the residual goes through a softmax, which gives every "
            "token a share", "6 Exhibit 2. A softmax for the residual"),
    Mistake(mistakes.residual_without_clamp, "the residual is |p - q|, without max(0, ...)",
            "3 The rule"),
    Mistake(mistakes.residual_of_the_next_position, "the residual subtracts the q of the position "
            "after the rejected token", "6 What each test is blind to"),
    Mistake(mistakes.bonus_from_residual, "the bonus is drawn from a residual, although nothing "
            "was rejected: it belongs to p alone", "6 What each test is blind to"),
    Mistake(mistakes.one_uniform_for_all, "one random number serves all tests of a round",
            "6 Exhibit 7. One random number for the tests of a round"),
    Mistake(mistakes.count_all_passed, "tests that were passed after the first rejection count, "
            "too", "3 The rule as code"),
    Mistake(mistakes.ratio_upside_down, "u is compared with q/p in place of p/q", "3 The rule"),
    Mistake(mistakes.less_or_equal, "a token is kept at u <= p/q: if p = 0 and u = 0, that keeps "
            "what the target never writes", "6 Exhibit 10. Less, or equal"),
    Mistake(mistakes.greedy_with_soft_ratio, "the token that follows is the target's favourite in "
            "place of a draw", "6 Exhibit 6. Greedy with a soft-max ratio"),
    Mistake(mistakes.OneNumberForEveryRound(), "every round meets the same random numbers",
            "6 Exhibit 8. One random number for every round"),
    Mistake(more_mistakes.bonus_by_argmax, "the bonus is the target's favourite in place of a draw",
            "6 Exhibit 12. The favourite as the bonus"),
    Mistake(more_mistakes.threshold_without_draw, "a token is kept if p >= q and never otherwise",
            "6 Exhibit 13. A threshold for the draw"),
    Mistake(more_mistakes.same_number_for_test_and_residual, "the number that failed the test also "
            "draws the correction", "6 Exhibit 14. The same noise twice"),
    Mistake(more_mistakes.typical_acceptance, "a token is kept if it is typical of the target",
            "6 Exhibit 16. Typical acceptance"),
]
RANDOMNESS = ("the rule must take all its randomness from `uniform` and `draw`, and hand them its "
              "`generator`: the check follows every way these two can go")


TARGETS: dict[str, tuple[int, ...]] = {
    "texts of three tokens": (),
    "texts of three tokens, of a target that never writes token 2": (2,)}


def check_rule(answer: Any, seed: int | None = None, given: Callable = blank) -> str:
    """Grade a learner's rule: run the real loop with it, in every way it can go.

    Both for a target that can write all three tokens and for one that never writes the last.
    seed: of other toy models.
    """
    models = toy_seeds(seed)

    def loop_with_your_rule(target, gamma):
        return texts(guarded(answer), models, target, gamma)

    def truth(target, gamma):
        return by_definition(HashModel(models[0], never=TARGETS[target]), 3)

    known = [mistake._replace(answer=lambda target, gamma, rule=mistake.answer:
                              texts_of_a_mistake(rule, models, target, gamma))
             for mistake in RULES + SLIPS]
    cases = [(target, gamma) for target in TARGETS for gamma in (0, 1, 2)]
    return check(loop_with_your_rule, truth, cases, known=known, given=given, of=answer,
                 at=lambda target, gamma: f"{target}, gamma = {gamma}",
                 last=lambda: keeps_too_few(guarded(answer), models))


def toy_seeds(seed: int | None) -> tuple[int, int]:
    """Return the seeds of a toy target and a toy draft, fresh ones for each seed."""
    return (1, 2) if seed is None else (3 + 2 * seed, 4 + 2 * seed)


def keeps_too_few(rule: Callable, models: tuple[int, int]) -> str:
    """Return a sentence if a rule, right as it is, keeps fewer tokens than it could; else ""."""
    mine, right = (kept(one, models) for one in (rule, accept_sampled))
    if mine > right - 1e-6:
        return ""
    return (f"the texts have the right distribution, but of two drafted tokens your rule keeps "
            f"{mine:.3g} on average, and u < p/q keeps {right:.3g}: so it gains less than it could")


def kept(rule: Callable, models: tuple[int, int]) -> float:
    """Return how many of two drafted tokens a rule keeps on average, exactly."""
    p, q = (torch.stack([HashModel(seed).row((i,)) for i in range(rows)]).softmax(-1)
            for seed, rows in zip(models, (3, 2)))

    def program(generator):
        return rule(draw(q, generator), q, p, generator).n.item()

    return sum(n * chance for n, chance in distribution_of(program).items())


def texts(rule: Callable, models: tuple[int, int], target: str, gamma: int) -> Texts:
    """Return the distribution of texts of three tokens that a rule gives in the real loop."""
    toy_target, toy_draft = HashModel(models[0], never=TARGETS[target]), HashModel(models[1])
    return by_enumeration(toy_target, toy_draft, 3, gamma, rule=rule)


texts_of_a_mistake = functools.cache(texts)  # they are asked for again and again


def guarded(answer: Any) -> Callable:
    """Return a learner's rule, which now says in words what is wrong with what it does."""
    def rule(drafted, q, p, generator):
        before = states()
        try:
            verdict = answer(drafted, q, p, generator)
        except TypeError as error:
            if "generator" in str(error) and type(generator).__name__ in str(error):
                raise CannotFollow(RANDOMNESS) from None  # torch.rand(.., generator=generator)
            raise
        if states() != before:
            raise CannotFollow(RANDOMNESS)
        if not isinstance(verdict, Acceptance):
            raise TypeError("a rule returns Acceptance(n, token), "
                            f"but yours returned {type(verdict).__name__}")
        for name, value in (("n", verdict.n), ("token", verdict.token)):
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"{name} should be a tensor of the shape (1,), but is {value!r}")
            if value.shape != (1,):
                raise TypeError(f"{name} should be a tensor of the shape (1,), but has the shape "
                                f"{tuple(value.shape)}")
        return verdict
    return rule


def states() -> tuple:
    """Return the state of every other source of random numbers that is at hand."""
    _, numbers, position, *_ = numpy.random.get_state(legacy=True)
    return (torch.get_rng_state().numpy().tobytes(), random.getstate(),
            numpy.asarray(numbers).tobytes(), position)
