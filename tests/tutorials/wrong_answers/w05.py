"""Plausible wrong answers to the exercises of notebook 5."""
from decoding.theory import expected_speedup


def speedup(alpha, gamma, c, v):
    """One power short: the bonus is forgotten."""
    return sum(alpha**i for i in range(gamma)) / (gamma * c + v)


def best_gamma(alpha, c, most):
    """Does not think of not speculating."""
    return max(range(1, most + 1), key=lambda gamma: expected_speedup(alpha, gamma, c))


def break_even_alpha(gamma, c):
    """The condition for gamma = 1, taken for all."""
    return c


def three_rates(drafted, accepted):
    """Every drafted token is taken for a tested one."""
    rate = sum(accepted) / sum(drafted)
    return rate, rate, (sum(accepted) + len(accepted)) / len(accepted)
