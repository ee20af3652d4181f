"""Probabilities and p-values computed slowly and obviously, to compare the project's own with."""
import math
from collections.abc import Sequence

import torch

from decoding.sampling import Sampling


def plain_probs(logits: list[float], sampling: Sampling) -> list[float]:
    """Return what `to_probs` should give for one row of logits."""
    ids, best = range(len(logits)), max(logits)
    if sampling.temperature == 0:
        return [float(i == logits.index(best)) for i in ids]
    weights = [math.exp((logit - best) / sampling.temperature) for logit in logits]
    kept = sorted(ids, key=lambda i: (-weights[i], i))[: sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        total, mass, count = sum(weights[i] for i in kept), 0.0, 0
        while mass < sampling.top_p and count < len(kept):
            mass += weights[kept[count]] / total
            count += 1
        kept = kept[:count]
    total, chosen = sum(weights[i] for i in kept), set(kept)
    return [weights[i] / total if i in chosen else 0.0 for i in ids]


def chi_square_p_value(counts: Sequence[float], expected: Sequence[float]) -> float:
    """Return how likely it is that counts differ at least this much from the expected ones.

    That is the p-value of the chi-square test. Every expectation should be at least 5.
    """
    assert len(counts) == len(expected) > 1 and min(expected) >= 5
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected))
    # With n cells the statistic has the chi-square distribution of n - 1 degrees of freedom, a
    # regularised gamma function.
    half = torch.tensor([(len(counts) - 1) / 2, statistic / 2], dtype=torch.float64)
    return torch.special.gammaincc(half[0], half[1]).item()
