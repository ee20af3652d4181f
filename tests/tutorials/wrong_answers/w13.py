"""Plausible wrong answers to the exercises of notebook 13."""
import torch

from decoding.acceptance import residual
from decoding.random import draw, uniform


def who_sees_whom(parents):
    """The mask of a chain."""
    return torch.ones(len(parents), len(parents)).tril()


def where_they_stand(parents, start):
    """One after the other, as in a chain."""
    return [start + i for i in range(len(parents))]


def chance_of_two_candidates(p, q):
    """"Two independent attempts.\""""
    return 1 - (1 - torch.minimum(p, q).sum()) ** 2


def token_of_a_place(candidates, p, q, generator):
    """q is left as it was."""
    for x in candidates.tolist():
        if uniform((1,), generator, p.device) < p[x] / q[x]:
            return x
        p = residual(p, q)
    return draw(p[None], generator).item()


def visible_columns(lengths, T):
    """All texts filled up to the longest."""
    positions = max(lengths) + torch.arange(T).expand(len(lengths), T)
    return torch.arange(max(lengths) + T) <= positions[..., None]


def speedup_of_a_batch(rounds, tokens, gamma, step, verify, draft):
    """The mean of the rounds: nobody waits for the slowest."""
    return tokens * step * len(rounds) / (sum(rounds) * (verify + gamma * draft))
