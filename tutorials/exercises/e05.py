"""Checks of notebook 5. The truth is the project's closed forms, and its own counts."""
from decoding import Generation, Round
from decoding.theory import expected_speedup
from tutorials.grading import Mistake, check, fresh

RUNS = [([4, 4, 4], [4, 0, 2]), ([1, 1], [1, 1]), ([4, 4, 1], [0, 3, 0]),
        ([8, 2, 5, 5], [8, 2, 4, 0])]
COST, EVEN, RATES = ("5 What a round brings, and what it costs", "5 The break-even line",
                     '5 Three things called "acceptance rate"')


def check_speedup(answer, seed=None) -> str:
    cases = [(0.8, 4, 0.1, 1.0), (0.5, 1, 0.2, 1.5), (0.0, 3, 0.1, 1.0), (1.0, 4, 0.25, 1.0),
             (0.9, 0, 0.1, 1.0)]
    cases += fresh(seed, lambda rng: (rng.random(), rng.randint(0, 9), rng.random(),
                                      1 + rng.random()))
    known = [Mistake(lambda alpha, gamma, c, v: sum(alpha**i for i in range(gamma))
                     / (gamma * c + v), "the last power is missing: the bonus", COST),
             Mistake(lambda alpha, gamma, c, v: expected_speedup(alpha, gamma, c), "verifying "
                     "costs one step, v = 1", COST),
             Mistake(lambda alpha, gamma, c, v: gamma * c + v, "the cost of a round is returned: "
                     "what it brings has to be divided by it", COST)]
    return check(answer, expected_speedup, cases, known=known)


def check_best_gamma(answer, seed=None) -> str:
    def truth(alpha, c, most):
        return max(range(most + 1), key=lambda gamma: expected_speedup(alpha, gamma, c))

    cases = [(0.8, 0.1, 16), (0.9, 0.05, 8), (0.3, 0.5, 8), (0.6, 0.3, 8), (0.5, 0.5, 4),
             (0.0, 0.1, 4)]
    cases += fresh(seed, lambda rng: (rng.random(), rng.random(), rng.randint(2, 16)))
    known = [Mistake(lambda alpha, c, most: max(range(1, most + 1), key=lambda gamma:
                                                expected_speedup(alpha, gamma, c)),
                     "not to speculate, gamma = 0, is not tried", COST),
             Mistake(lambda alpha, c, most: most, "tokens per round are counted, and their cost is "
                     "forgotten", COST)]
    return check(answer, truth, cases, known=known)


def check_break_even_alpha(answer, seed=None) -> str:
    def truth(gamma, c):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            wins = expected_speedup(middle, gamma, c) >= 1
            low, high = (low, middle) if wins else (middle, high)
        return high

    cases = [(1, 0.25), (4, 0.25), (8, 0.5), (2, 0.125), (4, 1.0)]
    cases += fresh(seed, lambda rng: (rng.randint(1, 9), rng.random()))
    known = [Mistake(lambda gamma, c: c, "alpha = c is taken for all gamma: that is gamma = 1",
                     EVEN)]
    return check(answer, truth, cases, close=1e-5, known=known)


def check_three_rates(answer, seed=None) -> str:
    def truth(drafted, accepted):
        rounds = [Round(drafted=[0] * k, accepted=n, extra=0,
                        kind="bonus" if n == k else "correction", target_cache=(0, 0),
                        draft_cache=None, finish_reason=None, seconds=0.0)
                  for k, n in zip(drafted, accepted)]
        run = Generation(rounds, max(drafted))
        return run.accepted_per_drafted, run.accepted_per_tested, run.tokens_per_round

    def more(rng):
        drafted = [rng.randint(1, 6) for _ in range(rng.randint(1, 5))]
        return drafted, [rng.randint(0, k) for k in drafted[:-1]] + [max(drafted[-1] - 1, 1)]

    def all_tested(drafted, accepted):
        per_drafted, _, tokens = truth(drafted, accepted)
        return per_drafted, per_drafted, tokens

    def without_extra(drafted, accepted):
        return *truth(drafted, accepted)[:2], sum(accepted) / len(accepted)

    known = [Mistake(all_tested, "every drafted token is taken for a tested one: what comes after "
                     "a rejection is not tested", RATES),
             Mistake(without_extra, "the target's own token in each round is forgotten", RATES)]
    return check(answer, truth, RUNS + fresh(seed, more), known=known)
