"""Checks of notebook 5. The truth is the project's closed forms, and its own counts."""
from decoding import Generation, Round
from decoding.theory import expected_speedup
from tutorials.grading import check

RUNS = [([4, 4, 4], [4, 0, 2]), ([1, 1], [1, 1]), ([4, 4, 1], [0, 3, 0]),
        ([8, 2, 5, 5], [8, 2, 4, 0])]


def check_speedup(answer) -> str:
    cases = [(0.8, 4, 0.1, 1.0), (0.5, 1, 0.2, 1.5), (0.0, 3, 0.1, 1.0), (1.0, 4, 0.25, 1.0),
             (0.9, 0, 0.1, 1.0)]
    return check(answer, expected_speedup, cases)


def check_best_gamma(answer) -> str:
    def truth(alpha, c, most):
        return max(range(most + 1), key=lambda gamma: expected_speedup(alpha, gamma, c))

    cases = [(0.8, 0.1, 16), (0.9, 0.05, 8), (0.3, 0.5, 8), (0.6, 0.3, 8), (0.5, 0.5, 4),
             (0.0, 0.1, 4)]
    return check(answer, truth, cases)


def check_break_even_alpha(answer) -> str:
    def truth(gamma, c):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            wins = expected_speedup(middle, gamma, c) >= 1
            low, high = (low, middle) if wins else (middle, high)
        return high

    cases = [(1, 0.25), (4, 0.25), (8, 0.5), (2, 0.125), (4, 1.0)]
    return check(answer, truth, cases, close=1e-5)


def check_three_rates(answer) -> str:
    def truth(drafted, accepted):
        rounds = [Round(drafted=[0] * k, accepted=n, extra=0,
                        kind="bonus" if n == k else "correction", target_cache=(0, 0),
                        draft_cache=None, finish_reason=None, seconds=0.0)
                  for k, n in zip(drafted, accepted)]
        run = Generation(rounds, max(drafted))
        return run.accepted_per_drafted, run.accepted_per_tested, run.tokens_per_round

    return check(answer, truth, RUNS)
