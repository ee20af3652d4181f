"""Checks of notebook 11. The truth is enumeration: of a rule's ways, of signs, of choices."""
import math
import random
from itertools import combinations, product
from statistics import fmean

import torch

from decoding.proof.enumerate import distribution_of
from decoding.proof.mistakes import redraw_from_p
from decoding.random import draw
from tutorials.grading import Mistake, check, dice, fresh

BIAS, SAMPLES = "11 How large is the bias?", "11 How many samples show it?"
LUCK, SCORE = "11 Nine differences, one of them notable", "11 Two tables"


def check_row_after_redrawing(answer, seed=None) -> str:
    def truth(p, q):
        def program(generator):
            drafted = draw(q[None], generator)
            verdict = redraw_from_p(drafted, q[None], torch.stack([p, p]), generator)
            return int(drafted if verdict.n else verdict.token)
        found = distribution_of(program)
        return torch.tensor([found.get(x, 0.0) for x in range(len(p))], dtype=torch.float64)

    rng = random.Random(0)
    cases = [dice(rng) for _ in range(4)]
    known = [Mistake(lambda p, q: p, "the rule is taken to be lossless: that is what the residual "
                     "would give", BIAS),
             Mistake(lambda p, q: torch.minimum(p, q) / torch.minimum(p, q).sum(),
                     "the rejections are forgotten: then a token is drawn from p", BIAS),
             Mistake(lambda p, q: q, "every drafted token is taken to be kept", BIAS)]
    return check(answer, truth, cases + fresh(seed, dice), known=known)


def check_samples_needed(answer, seed=None) -> str:
    def truth(sd, bias):
        return next_whole((1.96 + 0.84) ** 2 * sd**2 / bias**2)

    cases = [(0.5, 0.05), (0.07, 0.01), (0.49, 0.032), (1.0, 0.4)]
    cases += fresh(seed, lambda rng: (rng.uniform(0.05, 1), rng.uniform(0.003, 0.3)))
    known = [Mistake(lambda sd, bias: next_whole(1.96**2 * sd**2 / bias**2), "0.84 is left out: "
                     "then half of all tests would miss the bias", SAMPLES),
             Mistake(lambda sd, bias: next_whole(2.8 * sd / bias), "nothing is squared: four times "
                     "the samples halve the error, not twice", SAMPLES)]
    return check(answer, truth, cases, known=known)


def next_whole(x):
    """The smallest whole number that is not below x."""
    return math.ceil(x - 1e-9)


def check_p_by_signs(answer, seed=None) -> str:
    def truth(differences):
        found = abs(sum(differences))
        sums = [sum(sign * x for sign, x in zip(signs, differences))
                for signs in product((1, -1), repeat=len(differences))]
        return fmean(abs(total) >= found - 1e-9 for total in sums)

    def one_sided(differences):
        sums = [sum(sign * x for sign, x in zip(signs, differences))
                for signs in product((1, -1), repeat=len(differences))]
        return fmean(total >= sum(differences) - 1e-9 for total in sums)

    def strictly(differences):
        found = abs(sum(differences))
        sums = [sum(sign * x for sign, x in zip(signs, differences))
                for signs in product((1, -1), repeat=len(differences))]
        return fmean(abs(total) > found + 1e-9 for total in sums)

    cases = [([0.1, 0.2, 0.3],), ([0.1, -0.1, 0.2, 0.05],), ([-0.3, 0.1],), ([0.02] * 6,)]
    cases += fresh(seed, lambda rng: ([round(rng.uniform(-1, 1), 2) for _ in range(6)],))
    known = [Mistake(one_sided, "only one direction is counted: a loop can be worse or better",
                     LUCK),
             Mistake(strictly, "the signs that were found do not count themselves: then p can be "
                     "0, and nothing is that sure", LUCK)]
    return check(answer, truth, cases, known=known)


def check_pass_at_k(answer, seed=None) -> str:
    def truth(n, c, k):
        return fmean(any(chosen) for chosen in combinations([True] * c + [False] * (n - c), k))

    cases = [(5, 2, 1), (5, 2, 3), (8, 1, 4), (6, 0, 2), (4, 4, 2), (7, 5, 3)]

    def more(rng):
        n = rng.randint(4, 9)
        return n, rng.randint(1, n - 1), rng.randint(2, n - 1)

    known = [Mistake(lambda n, c, k: 1 - (1 - c / n) ** k, "each of the k is drawn from all n "
                     "samples again: the estimate is then too low", SCORE),
             Mistake(lambda n, c, k: c / n, "k is forgotten: this is pass@1", SCORE)]
    return check(answer, truth, cases + fresh(seed, more), known=known)
