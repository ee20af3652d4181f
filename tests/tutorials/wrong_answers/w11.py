"""Plausible wrong answers to the exercises of notebook 11."""
from itertools import product

import torch


def row_after_redrawing(p, q):
    """Only what is kept."""
    kept = torch.minimum(p, q)
    return kept / kept.sum()


def samples_needed(sd, bias):
    """Significant on average: that is one time in two."""
    return int(-(-(1.96 * sd / bias) ** 2 // 1))


def p_by_signs(differences):
    """One-sided."""
    sums = [sum(sign * x for sign, x in zip(signs, differences))
            for signs in product((1, -1), repeat=len(differences))]
    return sum(total >= sum(differences) - 1e-9 for total in sums) / len(sums)


def pass_at_k(n, c, k):
    """With replacement."""
    return 1 - (1 - c / n) ** k
