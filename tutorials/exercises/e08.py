"""Checks of notebook 8. The truth is the project's own rule, its lookup, and the closed forms."""
import random

import torch

from decoding.acceptance import accept_sampled
from decoding.proof.enumerate import distribution_of
from decoding.theory import expected_speedup
from tutorials.grading import check

P = [torch.tensor(p, dtype=torch.float64)
     for p in ([0.4, 0.3, 0.2, 0.1], [0.6, 0.4], [1.0, 0.0], [0.25, 0.75])]


def check_alpha_of_a_sure_draft(answer) -> str:
    def truth(p, x):
        q = torch.nn.functional.one_hot(torch.tensor([x]), len(p)).double()

        def program(generator):
            return bool(accept_sampled(torch.tensor([x]), q, torch.stack([p, p]), generator).n)
        return distribution_of(program).get(True, 0.0)

    return check(answer, truth, [(p, x) for p in P for x in range(len(p))])


def check_look_up(answer) -> str:
    def truth(tokens, n, k):
        starts = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
        return tokens[starts[-1] + n :][:k] if starts else []

    rng = random.Random(0)
    cases = [([1, 2, 3, 9, 5, 2, 3, 7, 8, 2, 3], 2, 2), ([1, 2, 3], 2, 4), ([1], 1, 3),
             ([4, 4], 1, 3)]
    for _ in range(100):
        tokens = [rng.randrange(3) for _ in range(12)]
        cases.append((tokens, rng.randrange(1, 4), rng.randrange(1, 5)))
    return check(answer, truth, cases)


def check_best_gamma(answer) -> str:
    def truth(alpha, c):
        speedups = [expected_speedup(alpha, gamma, c) for gamma in range(17)]
        return speedups.index(max(speedups))
    alphas, costs = (0.0, 0.3, 0.5, 0.8, 0.95, 1.0), (0.01, 0.1, 0.3, 1.0)
    cases = [(alpha, c) for alpha in alphas for c in costs]
    return check(answer, truth, cases)


def check_row_of_a_mixture(answer) -> str:
    q1, q2 = P[0], P[0].flip(0)

    def truth(q1, q2, w):
        row = torch.zeros_like(q1)
        for chance, q in ((w, q1), (1 - w, q2)):
            row += chance * q
        return row
    return check(answer, truth, [(q1, q2, w) for w in (0.0, 0.25, 0.5, 1.0)])
