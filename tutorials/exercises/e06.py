"""Checks of notebook 6.

The truth is the enumeration of a rule, right or wrong as the exercise says, or the definition.
"""
import torch

from decoding.acceptance import Acceptance
from decoding.proof import mistakes
from decoding.proof.distributions import difference
from decoding.random import draw, uniform
from tutorials.exercises.e03 import CASES, paths
from tutorials.grading import Mistake, check, dice, fresh
from tutorials.tutor import check_rule

SOFTMAX, END, EQUAL = ("6 Exhibit 2. A softmax for the residual",
                       "6 Exhibit 9. A bonus after the end-of-text",
                       "6 Exhibit 10. Less, or equal")
SAME = {(0,): 0.25, (1,): 0.75}
PAIRS = [(SAME, SAME), ({(0,): 0.25 + 1e-13, (1,): 0.75}, SAME), ({(0,): 0.35, (1,): 0.65}, SAME),
         (SAME | {(2,): 0.0}, SAME), (SAME, SAME | {(2,): 0.0}), ({(0,): 0.25, (2,): 0.75}, SAME)]
ENDS = [([5, 7, 9], 4), ([5, 7, 2], 4), ([5, 2, 9], 4), ([5, 2, 2], 4), ([2], 4), ([], 4),
        ([5, 7, 9, 8, 6], 4), ([2, 5, 2], 3), ([5, 7, 9, 2, 2], 4)]


def check_distribution_with_a_softmax(answer, seed=None) -> str:
    known = [Mistake(lambda p, q: p, "the softmax is taken for the division by the sum: then p "
                     "would come out", SOFTMAX),
             Mistake(lambda p, q: paths(p, q, rule=mistakes.redraw_from_p)[0], "a rejected token "
                     "is redrawn from p", "3 Why not redraw from p?"),
             Mistake(lambda p, q: (p - q).clamp(min=0).softmax(-1), "only the third die is looked "
                     "at: most tokens are kept before it is rolled", SOFTMAX)]
    return check(answer, lambda p, q: paths(p, q, rule=mistakes.softmax_residual)[0],
                 CASES + fresh(seed, dice), known=known)


def rule_to_repair(drafted, q, p, generator):  # as the notebook gives it
    k = len(drafted)
    ratio = p[torch.arange(k), drafted] / q[torch.arange(k), drafted]
    passed = uniform((k,), generator, p.device) <= ratio
    n = passed.sum(0, keepdim=True)
    return Acceptance(n, draw(p[n], generator))


def check_repaired_rule(answer, seed=None) -> str:
    return check_rule(answer, seed, given=rule_to_repair)


def check_ends_well(answer, seed=None) -> str:
    def truth(tokens, eos, max_new_tokens):
        return eos not in tokens[:-1] and len(tokens) <= max_new_tokens

    def more(rng):
        return [rng.randint(0, 3) for _ in range(rng.randint(0, 5))], 2, rng.randint(2, 5)

    known = [Mistake(lambda tokens, eos, most: (eos not in tokens or tokens[-1] == eos)
                     and len(tokens) <= most, "only the last token is looked at: one before it can "
                     "be an end-of-text, too", END),
             Mistake(lambda tokens, eos, most: eos not in tokens[:-1], "the budget is forgotten",
                     END),
             Mistake(lambda tokens, eos, most: tokens[-1:] == [eos] and truth(tokens, eos, most),
                     "every text has to have an end-of-text: the budget can cut it before", END)]
    return check(answer, truth, [(tokens, 2, most) for tokens, most in ENDS] + fresh(seed, more),
                 known=known)


def check_same_distribution(answer, seed=None) -> str:
    def more(rng):
        chance, gap = rng.random(), rng.choice([0, 1e-12, 1e-3])
        return {(0,): chance, (1,): 1 - chance}, {(0,): chance + gap, (1,): 1 - chance - gap}

    known = [Mistake(lambda found, wanted: all(abs(found.get(text, 0) - wanted[text]) <= 1e-9
                                               for text in wanted), "only the texts that are "
                     "wanted are compared: what should be impossible is not looked at", EQUAL),
             Mistake(lambda found, wanted: all(abs(found.get(text, 0) - wanted.get(text, 0)) <= 1e-9
                                               for text in found | wanted), "a text that cannot be "
                     "written is taken for one of probability 0", EQUAL),
             Mistake(lambda found, wanted: found == wanted, "rounding is taken for a difference",
                     EQUAL)]
    return check(answer, lambda found, wanted: difference(found, wanted) <= 1e-9,
                 PAIRS + fresh(seed, more), known=known)
