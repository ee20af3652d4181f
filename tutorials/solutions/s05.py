"""Solutions to the exercises of notebook 5."""


def speedup(alpha, gamma, c, v):
    """Tokens per round over cost per round. As a sum it needs no special case at alpha = 1."""
    return sum(alpha**i for i in range(gamma + 1)) / (gamma * c + v)


def best_gamma(alpha, c, most):
    """`max` returns the first of equally good ones. gamma = 0, the plain loop, takes part."""
    return max(range(most + 1), key=lambda gamma: speedup(alpha, gamma, c, 1))


def break_even_alpha(gamma, c):
    """The speed-up rises with alpha, so halving finds where it passes 1.

    For gamma = 1 the answer is c itself.
    """
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if speedup(middle, gamma, c, 1) < 1:
            low = middle
        else:
            high = middle
    return high


def three_rates(drafted, accepted):
    """A round that rejected something tested one token more than it accepted.

    Every round adds one token of the target's.
    """
    tested = sum(n + (n < k) for k, n in zip(drafted, accepted))
    kept, rounds = sum(accepted), len(accepted)
    return kept / sum(drafted), kept / tested, (kept + rounds) / rounds
