"""Checks of notebook 3.

The truth is the enumeration of the project's own rule, or of the wrong one that is meant.
"""
import torch

from decoding.acceptance import Acceptance, accept_sampled, residual
from decoding.proof import mistakes
from decoding.proof.distributions import by_definition, by_enumeration
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel
from decoding.random import draw
from tutorials.grading import check

DICE = [([0.4, 0.3, 0.2, 0.1], [0.2, 0.5, 0.1, 0.2]), ([0.6, 0.4], [0.8, 0.2]),
        ([0.0, 0.5, 0.5], [0.5, 0.25, 0.25]), ([1.0, 0.0], [0.0, 1.0]),
        ([0.25, 0.75], [0.25, 0.75])]
CASES = [(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64))
         for p, q in DICE]
TARGET, DRAFT = HashModel(1), HashModel(2)


def check_chance_of_keeping(answer) -> str:
    return check(answer, lambda p, q: paths(p, q)[1], CASES)


def check_third_die(answer) -> str:
    p, q = CASES[0]
    rows = torch.stack([p, q, p]), torch.stack([q, p, p])
    return check(answer, residual, [*CASES, rows])


def check_distribution_when_redrawn(answer) -> str:
    return check(answer, lambda p, q: paths(p, q, rule=mistakes.redraw_from_p)[0], CASES)


def check_distribution_of_a_greedy_draft(answer) -> str:
    def truth(p, q):
        return paths(p, q, propose=lambda generator: q.argmax()[None])[0]

    return check(answer, truth, CASES)


def check_my_rule(answer) -> str:
    def loop_with_your_rule(gamma):
        return by_enumeration(TARGET, DRAFT, 3, gamma, rule=guarded(answer))

    return check(loop_with_your_rule, lambda gamma: by_definition(TARGET, 3), [(0,), (1,), (2,)])


def guarded(answer):
    """Return a learner's rule, which now says in words what is wrong with what it returns."""
    def rule(*arguments):
        verdict = answer(*arguments)
        if not isinstance(verdict, Acceptance):
            raise TypeError("a rule returns Acceptance(n, token), "
                            f"but yours returned {type(verdict).__name__}")
        for name, value in (("n", verdict.n), ("token", verdict.token)):
            if not isinstance(value, torch.Tensor) or value.shape != (1,):
                raise TypeError(f"{name} should be a tensor of the shape (1,), but is {value}")
        return verdict
    return rule


def paths(p, q, rule=accept_sampled, propose=None):
    """Enumerate one drafted token.

    Returns the distribution of what comes out, and the probability that the drafted one is kept.
    """
    def program(generator):
        drafted = draw(q[None], generator) if propose is None else propose(generator)
        verdict = rule(drafted, q[None], torch.stack([p, p]), generator)
        return bool(verdict.n), (drafted if verdict.n else verdict.token).item()

    out, kept = torch.zeros_like(p), 0.0
    for (was_kept, token), probability in distribution_of(program).items():
        out[token] += probability
        kept += was_kept * probability
    return out, kept
