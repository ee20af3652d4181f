"""Checks of notebook 7.

The truth is the project's own functions, or a count of every way two dice can fall.
"""
import itertools

import torch

from decoding.acceptance import accept_greedy
from tutorials.grading import check

DICE = [([0.4, 0.3, 0.2, 0.1], [0.2, 0.5, 0.1, 0.2]), ([0.6, 0.4], [0.8, 0.2]),
        ([0.25, 0.75], [0.25, 0.75]), ([0.98, 0.01, 0.01], [0.01, 0.01, 0.98])]
CASES = [tuple(torch.tensor([p, q], dtype=torch.float64)) for p, q in DICE]


def check_gumbel_choice(answer) -> str:
    def truth(p, u):
        waits = [-u[x].log().item() / p[x].item() if p[x] > 0 else float("inf")
                 for x in range(len(p))]
        return waits.index(min(waits))

    generator = torch.Generator().manual_seed(0)
    rows = [torch.rand(4, generator=generator, dtype=torch.float64) for _ in range(20)]
    dice = [*CASES[0], torch.tensor([0.0, 0.5, 0.0, 0.5], dtype=torch.float64)]
    return check(answer, truth, list(itertools.product(dice, rows)))


def check_promised_agreement(answer) -> str:
    def truth(p, q):
        overlap = sum(min(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
        return overlap / (2 - overlap)
    return check(answer, truth, CASES)


def check_chance_without_sharing(answer) -> str:
    def truth(p, q):
        falls = itertools.product(range(len(p)), range(len(q)))
        return sum(p[x].item() * q[y].item() for x, y in falls if x == y)
    return check(answer, truth, CASES)


def check_keep_while_same(answer) -> str:
    def truth(drafted, p):
        n, token, *_ = accept_greedy(drafted, p[:-1], p, torch.Generator())
        return n.item(), token.item()

    generator = torch.Generator().manual_seed(0)
    cases = []
    for k in (0, 1, 1, 2, 2, 3, 3, 4, 4, 4):
        drafted = torch.randint(3, (k,), generator=generator)
        cases.append((drafted, torch.eye(3)[torch.randint(3, (k + 1,), generator=generator)]))
    return check(answer, truth, cases)
