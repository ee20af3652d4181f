"""Checks of notebook 12. The truth is the definition, or the project's own rule, enumerated."""
from collections.abc import Callable

import torch

from decoding.acceptance import accept_block, accept_sampled
from decoding.proof import mistakes_of_blocks
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from tutorials.exercises.e03 import CASES
from tutorials.grading import Mistake, check, dice, die, fresh
from tutorials.tutor import guarded

RATIOS = [[0.5, 2.0], [2.0, 0.5], [0.5, 0.5, 3.0], [3.0, 2.0, 0.25, 3.0], [0.0, 5.0], [0.75], []]
TESTS = [([0.3, 0.9, 0.2], [0.5, 0.5, 0.5]), ([0.9, 0.1], [0.5, 0.5]), ([0.9, 0.8], [0.0, 0.25]),
         ([0.1, 0.2, 0.9], [0.5, 0.5, 0.5]), ([0.9, 0.3, 0.9, 0.1, 0.7], [0.5] * 5), ([], [])]
COINS = [([0.6, 0.4], [0.8, 0.2], 1), ([0.6, 0.4], [0.8, 0.2], 2), ([0.6, 0.4], [0.8, 0.2], 4),
         ([1 / 3, 2 / 3], [2 / 3, 1 / 3], 2), ([0.25, 0.75], [0.25, 0.75], 3)]
HAND, RULE, PROOF, EXHIBITS, WORSE = (
    "12 Two positions, by hand", "12 The rule", "12 The proof, four lines", "12 Exhibits",
    "12 Never worse")


def check_chances_to_keep(answer, seed=None) -> str:
    def truth(ratios):
        P = [1.0]
        for ratio in ratios:
            P.append(min(1.0, P[-1] * ratio))
        return P[1:]

    def running(factor, cap=1.0):
        def wrong(ratios):
            P = [1.0]
            for ratio in ratios:
                P.append(P[-1] * factor(ratio))
            return [min(cap, one) for one in P[1:]]
        return wrong

    def more(rng):
        n = rng.randint(3, 6)
        return [rng.choice([0.5, 1.0, 2.0]) * rng.uniform(0.5, 2) for _ in range(n)],

    known = [Mistake(running(lambda ratio: ratio), "all the ratios are multiplied and only the "
                     "product is capped at 1: an early surplus pays for a later lack", EXHIBITS),
             Mistake(running(lambda ratio: min(1.0, ratio)), "each ratio is capped by itself: that "
                     "is what the token rule keeps", HAND),
             Mistake(running(lambda ratio: ratio, float("inf")), "nothing is capped", RULE)]
    return check(answer, truth, [(ratios,) for ratios in RATIOS] + fresh(seed, more), known=known)


def check_chance_to_end_here(answer, seed=None) -> str:
    def truth(P, p, q):
        R = left(P, p, q)
        return R / (R + 1 - P) if R + 1 - P > 0 else torch.ones_like(P)

    def left(P, p, q):
        return (P * p - q).clamp(min=0).sum()

    def more(rng):
        return torch.tensor(rng.random(), dtype=torch.float64), *dice(rng)

    cases = [(torch.tensor(P, dtype=torch.float64), p, q)
             for p, q in CASES for P in (0.5, 0.9, 1.0)]
    known = [Mistake(lambda P, p, q: P, "u is compared with P: it is the wanted chance to keep so "
                     "many tokens or more, and the later tests keep some of them already",
                     EXHIBITS),
             Mistake(left, "R is not divided: it is the chance to end here, whatever the later "
                     "tests say, and h is for the case that they all fail", PROOF),
             Mistake(lambda P, p, q: (p - q).clamp(min=0).sum() / ((p - q).clamp(min=0).sum()
                                                                   + 1 - P),
                     "R is made of p - q, without the P before p", EXHIBITS)]
    return check(answer, truth, cases + fresh(seed, more), known=known)


def check_how_many_stay(answer, seed=None) -> str:
    def truth(u, h):
        return max((i for i, (a, b) in enumerate(zip(u, h), 1) if a < b), default=0)

    def first_failure(u, h):
        return next((i for i, (a, b) in enumerate(zip(u, h)) if a >= b), len(u))

    def more(rng):
        n = rng.randint(3, 7)
        return [rng.random() for _ in range(n)], [rng.random() for _ in range(n)]

    known = [Mistake(first_failure, "it stops at the first failed test: here the last test that is "
                     "passed decides", EXHIBITS),
             Mistake(lambda u, h: sum(a < b for a, b in zip(u, h)), "the passed tests are counted: "
                     "all tokens before the last passed test stay, too", RULE),
             Mistake(lambda u, h: max(0, truth(u, h) - 1), "positions are counted from 0, and "
                     "tokens are not", RULE)]
    return check(answer, truth, TESTS + fresh(seed, more), known=known)


def check_tokens_of_a_round(answer, seed=None) -> str:
    def truth(p, q, gamma, rule=accept_block):
        """Enumerate a round of two models with the same rows everywhere."""
        def program(generator):
            rows = q.expand(gamma, -1)
            drafted = draw(rows, generator)
            return rule(drafted, rows, p.expand(gamma + 1, -1), generator).n.item()

        return 1 + sum(n * chance for n, chance in distribution_of(program).items())

    def more(rng):
        return die(rng, 3), die(rng, 3), rng.randint(2, 3)

    cases = [(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64), gamma)
             for p, q, gamma in COINS]
    known = [Mistake(lambda p, q, gamma: truth(p, q, gamma, accept_sampled), "the token rule "
                     "judges the draft: its expectation is 1 + alpha + ... + alpha^gamma", WORSE),
             Mistake(lambda p, q, gamma: truth(p, q, gamma) - 1, "the target's own token is "
                     "forgotten", WORSE)]
    return check(answer, truth, cases + fresh(seed, more), known=known)


def round_of(drafted, q, p) -> tuple:
    """Return the arguments of a rule but the generator, from lists."""
    return (torch.tensor(drafted, dtype=torch.long),
            torch.tensor(q, dtype=torch.float64).view(len(drafted), -1)
            if drafted else torch.empty(0, 3, dtype=torch.float64),
            torch.tensor(p, dtype=torch.float64))


A, B, C = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.6, 0.3]
D, E, F = [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.4, 0.3, 0.3]
ROUNDS = [round_of([0, 1], [A, B], [B, C, A]), round_of([0, 0], [A, A], [B, B, C]),
          round_of([2, 1, 0], [B, C, A], [A, A, C, B]), round_of([1], [C], [A, B]),
          round_of([], [], [A]), round_of([0, 1], [A, B], [A, B, C]),
          round_of([2, 1, 1], [A, A, A], [B, C, C, A]),
          round_of([0, 0], [F, D], [D, F, A]), round_of([0, 2], [A, E], [F, D, A]),
          round_of([0, 2, 2], [A, E, E], [F, D, D, B])]


def check_my_block_rule(answer, seed=None) -> str:
    def more(rng):
        k = rng.randint(2, 3)
        q, p = (torch.stack([die(rng, 3) for _ in range(n)]) ** 3 for n in (k, k + 1))
        return (torch.tensor([rng.randrange(3) for _ in range(k)]),
                q / q.sum(-1, keepdim=True), p / p.sum(-1, keepdim=True))

    def enumerated(rule: Callable) -> Callable:
        """Return a function of a round: {(n, token): the probability that the rule says so}."""
        def my_block_rule(drafted, q, p):
            def program(generator):
                verdict = rule(drafted, q, p, generator)
                return verdict.n.item(), verdict.token.item()
            return distribution_of(program)
        return my_block_rule

    wrong = mistakes_of_blocks
    known = [Mistake(enumerated(rule), words, see) for rule, words, see in (
        (wrong.residual_of_the_token_rule, "the token that follows is drawn from max(0, p - q), "
         "without the P before p", EXHIBITS),
        (wrong.stop_at_the_first_failure, "it stops at the first failed test", EXHIBITS),
        (wrong.cap_at_the_end, "all the ratios are multiplied and only the product is capped at 1",
         EXHIBITS),
        (wrong.compare_with_P, "u is compared with P in place of h", EXHIBITS),
        (wrong.one_uniform_for_the_block, "one random number serves all tests of a block",
         EXHIBITS),
        (wrong.ones_for_a_lookup_draft, "q = 1 is taken for every token", EXHIBITS),
        (wrong.token_rule_up_to_two, "the token rule judges blocks of two: it is the same rule for "
         "one token only", EXHIBITS),
        (accept_sampled, "the tokens are judged one by one: that is the token rule", HAND))]
    return check(enumerated(guarded(answer)), enumerated(accept_block),
                 ROUNDS + fresh(seed, more), known=known, of=answer)
