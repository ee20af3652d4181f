"""Checks of notebook 6.

The truth is the enumeration of a rule, right or wrong as the exercise says, or the definition.
"""
from decoding.proof import mistakes
from decoding.proof.distributions import by_definition, by_enumeration, difference
from decoding.proof.toys import HashModel
from tutorials.exercises.e03 import CASES, guarded, paths
from tutorials.grading import check

TARGETS = {"three tokens": HashModel(1), "token 2 is impossible": HashModel(1, never=[2])}
DRAFT = HashModel(2)
SAME = {(0,): 0.25, (1,): 0.75}
PAIRS = [(SAME, SAME), ({(0,): 0.25 + 1e-13, (1,): 0.75}, SAME), ({(0,): 0.35, (1,): 0.65}, SAME),
         (SAME | {(2,): 0.0}, SAME), (SAME, SAME | {(2,): 0.0}), ({(0,): 0.25, (2,): 0.75}, SAME)]
ENDS = [([5, 7, 9], 4), ([5, 7, 2], 4), ([5, 2, 9], 4), ([5, 2, 2], 4), ([2], 4), ([], 4),
        ([5, 7, 9, 8, 6], 4), ([2, 5, 2], 3), ([5, 7, 9, 2, 2], 4)]


def check_distribution_with_a_softmax(answer) -> str:
    return check(answer, lambda p, q: paths(p, q, rule=mistakes.softmax_residual)[0], CASES)


def check_repaired_rule(answer) -> str:
    def loop_with_your_rule(target, gamma):
        return by_enumeration(TARGETS[target], DRAFT, 3, gamma, rule=guarded(answer))

    return check(loop_with_your_rule, lambda target, gamma: by_definition(TARGETS[target], 3),
                 [(target, gamma) for target in TARGETS for gamma in (0, 1, 2)])


def check_ends_well(answer) -> str:
    def truth(tokens, eos, max_new_tokens):
        return eos not in tokens[:-1] and len(tokens) <= max_new_tokens

    return check(answer, truth, [(tokens, 2, most) for tokens, most in ENDS])


def check_same_distribution(answer) -> str:
    return check(answer, lambda found, wanted: difference(found, wanted) <= 1e-9, PAIRS)
