"""Solutions to the exercises of notebook 11."""
import math
from itertools import product

import torch


def row_after_redrawing(p, q):
    """Kept with min(p, q); after a rejection, of chance 1 - alpha, drawn from p."""
    kept = torch.minimum(p, q)
    return kept + (1 - kept.sum()) * p


def samples_needed(sd, bias):
    """The error of the mean, sd / sqrt(n), must fit 1.96 + 0.84 times into the bias."""
    return math.ceil(((1.96 + 0.84) * sd / bias) ** 2)


def p_by_signs(differences):
    """How many of the 2^n ways to set signs are at least as far from 0."""
    found = abs(sum(differences))
    sums = [abs(sum(sign * x for sign, x in zip(signs, differences)))
            for signs in product((1, -1), repeat=len(differences))]
    return sum(total >= found - 1e-9 for total in sums) / len(sums)


def pass_at_k(n, c, k):
    """One minus the chance that k of the n samples, without replacement, are all wrong."""
    return 1 - math.comb(n - c, k) / math.comb(n, k)
