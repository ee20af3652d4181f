"""Checks of notebook 7.

The truth is the project's own functions, or a count of every way two dice can fall.
"""
import itertools

import torch

from decoding.acceptance import accept_greedy
from tutorials.grading import Mistake, check, dice, die, fresh

DICE = [([0.4, 0.3, 0.2, 0.1], [0.2, 0.5, 0.1, 0.2]), ([0.6, 0.4], [0.8, 0.2]),
        ([0.25, 0.75], [0.25, 0.75]), ([0.98, 0.01, 0.01], [0.01, 0.01, 0.98])]
CASES = [tuple(torch.tensor([p, q], dtype=torch.float64)) for p, q in DICE]

DRAW, COST = "7 A draw without drawing: the Gumbel trick", "7 What it costs"


def check_gumbel_choice(answer, seed=None) -> str:
    def truth(p, u):
        waits = [-u[x].log().item() / p[x].item() if p[x] > 0 else float("inf")
                 for x in range(len(p))]
        return waits.index(min(waits))

    generator = torch.Generator().manual_seed(0)
    rows = [torch.rand(4, generator=generator, dtype=torch.float64) for _ in range(20)]
    four = [*CASES[0], torch.tensor([0.0, 0.5, 0.0, 0.5], dtype=torch.float64)]

    def more(rng):
        return die(rng, 5), torch.tensor([rng.random() for _ in range(5)], dtype=torch.float64)

    cases = [*itertools.product(four, rows), *fresh(seed, more, 20)]
    known = [Mistake(lambda p, u: (p.log() + u).argmax().item(), "the noise is uniform, and not "
                     "Gumbel noise, -log(-log u)", DRAW),
             Mistake(lambda p, u: (p.log() - u.log()).argmax().item(), "one of the two logarithms "
                     "is missing: the noise is -log(-log u)", DRAW),
             Mistake(lambda p, u: (p - (-u.log()).log()).argmax().item(), "the noise is added to "
                     "p, and not to its logarithm", DRAW),
             Mistake(lambda p, u: p.argmax().item(), "no noise is added", DRAW)]
    return check(answer, truth, cases, known=known)


def check_promised_agreement(answer, seed=None) -> str:
    def truth(p, q):
        overlap = sum(min(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
        return overlap / (2 - overlap)

    known = [Mistake(lambda p, q: p.minimum(q).sum(), "the most that is possible is taken for what "
                     "is promised", COST),
             Mistake(lambda p, q: (1 - (p - q).abs().sum()) / (1 + (p - q).abs().sum()),
                     "the sum in TV is not halved", COST)]
    return check(answer, truth, CASES + fresh(seed, dice), known=known)


def check_chance_without_sharing(answer, seed=None) -> str:
    def truth(p, q):
        falls = itertools.product(range(len(p)), range(len(q)))
        return sum(p[x].item() * q[y].item() for x, y in falls if x == y)

    known = [Mistake(lambda p, q: p.minimum(q).sum(), "the rule of notebook 3 looks at both dice: "
                     "here nobody does", COST),
             Mistake(lambda p, q: (p * q), "the sum over the faces is missing", COST)]
    return check(answer, truth, CASES + fresh(seed, dice), known=known)


def check_keep_while_same(answer, seed=None) -> str:
    def truth(drafted, p):
        n, token, *_ = accept_greedy(drafted, p[:-1], p, torch.Generator())
        return n.item(), token.item()

    generator = torch.Generator().manual_seed(0)
    cases = []
    for k in (0, 1, 1, 2, 2, 3, 3, 4, 4, 4):
        drafted = torch.randint(3, (k,), generator=generator)
        cases.append((drafted, torch.eye(3)[torch.randint(3, (k + 1,), generator=generator)]))

    def more(rng):
        k = rng.randint(0, 4)
        ids = torch.tensor([rng.randrange(3) for _ in range(k)], dtype=torch.long)
        return ids, torch.eye(3)[[rng.randrange(3) for _ in range(k + 1)]]

    def all_agreements(drafted, p):
        n = int((drafted == p[:-1].argmax(-1)).sum())
        return n, p[n].argmax().item()

    known = [Mistake(all_agreements, "tokens are counted that agree after the first difference",
                     "7 In the loop")]
    return check(answer, truth, cases + fresh(seed, more), known=known)
