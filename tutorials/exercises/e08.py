"""Checks of notebook 8. The truth is the project's own rule, and its lookup."""
import random

import torch

from decoding.acceptance import accept_sampled
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from decoding.sampling import Sampling, to_probs
from tutorials.grading import Mistake, check, die, fresh

P = [torch.tensor(p, dtype=torch.float64)
     for p in ([0.4, 0.3, 0.2, 0.1], [0.6, 0.4], [1.0, 0.0], [0.25, 0.75])]
NOISE, REPEATS = "8 Acceptance without noise", "8 A text that repeats itself"


def check_alpha_of_a_sure_draft(answer, seed=None) -> str:
    def truth(p, x):
        q = torch.nn.functional.one_hot(torch.tensor([x]), len(p)).double()

        def program(generator):
            return bool(accept_sampled(torch.tensor([x]), q, torch.stack([p, p]), generator).n)
        return distribution_of(program).get(True, 0.0)

    cases = [(p, x) for p in P for x in range(len(p))]
    cases += fresh(seed, lambda rng: (die(rng, 4), rng.randrange(4)))
    known = [Mistake(lambda p, x: p[x] / p.max(), "p is divided by that of the target's favourite: "
                     "the ratio has q under it, which is 1", NOISE),
             Mistake(lambda p, x: 1.0, "the draft's own certainty is returned: the target need not "
                     "share it", NOISE)]
    return check(answer, truth, cases, known=known)


def check_look_up(answer, seed=None) -> str:
    def truth(tokens, n, k):
        starts = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
        return tokens[starts[-1] + n :][:k] if starts else []

    rng = random.Random(0)
    cases = [([1, 2, 3, 9, 5, 2, 3, 7, 8, 2, 3], 2, 2), ([1, 2, 3], 2, 4), ([1], 1, 3),
             ([4, 4], 1, 3)]
    for _ in range(100):
        tokens = [rng.randrange(3) for _ in range(12)]
        cases.append((tokens, rng.randrange(1, 4), rng.randrange(1, 5)))
    cases += fresh(seed, lambda rng: ([rng.randrange(3) for _ in range(15)], rng.randint(1, 3), 4))

    def first(tokens, n, k):
        starts = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
        return tokens[starts[0] + n :][:k] if starts else []

    known = [Mistake(first, "the first occurrence is taken, and not the latest", REPEATS),
             Mistake(lambda tokens, n, k: [], "the ending finds nothing but itself", REPEATS)]
    return check(answer, truth, cases, known=known)


def check_best_temperature(answer, seed=None) -> str:
    def kept(p, logits, temperature):
        q = to_probs(logits, Sampling(temperature))

        def program(generator):
            drafted = draw(q[None], generator)
            return bool(accept_sampled(drafted, q[None], torch.stack([p, p]), generator).n)
        return distribution_of(program)[True]

    def truth(p, logits, temperatures):
        chances = [kept(p, logits, temperature) for temperature in temperatures]
        return temperatures[chances.index(max(chances))]

    def more(rng):
        logits = torch.tensor([rng.gauss(0, 1) for _ in range(4)], dtype=torch.float64)
        return (rng.uniform(0.3, 3) * logits).softmax(-1), logits, [0.3, 0.6, 1.0, 1.7]

    flat = torch.tensor([1.0, 0.5, 0.0, -0.5], dtype=torch.float64)
    cases = [((scale * flat).softmax(-1), flat, [0.25, 0.5, 1.0, 2.0])
             for scale in (0.5, 1.0, 2.0, 4.0)]
    cases += [(P[0], flat.flip(0), [0.5, 1.0, 3.0])]
    known = [Mistake(lambda p, logits, temperatures: min(temperatures), "the draft is made as sure "
                     "as possible: it should be as sure as the target", NOISE),
             Mistake(lambda p, logits, temperatures: 1.0, "the draft is left as it is", NOISE),
             Mistake(lambda p, logits, temperatures: max(temperatures), "the draft is made as "
                     "unsure as possible: it should be as sure as the target", NOISE)]
    return check(answer, truth, cases + fresh(seed, more), known=known)


def check_row_of_a_mixture(answer, seed=None) -> str:
    q1, q2 = P[0], P[0].flip(0)

    def truth(q1, q2, w):
        row = torch.zeros_like(q1)
        for chance, q in ((w, q1), (1 - w, q2)):
            row += chance * q
        return row

    cases = [(q1, q2, w) for w in (0.0, 0.25, 0.5, 1.0)]
    cases += fresh(seed, lambda rng: (die(rng, 3), die(rng, 3), rng.random()))
    known = [Mistake(lambda q1, q2, w: q1 if w >= 0.5 else q2, "the row of the likelier draft is "
                     "taken: the other one writes, too", "8 The distribution never changes"),
             Mistake(lambda q1, q2, w: (1 - w) * q1 + w * q2, "the two drafts are exchanged",
                     "8 The distribution never changes")]
    return check(answer, truth, cases, known=known)
