"""Solutions to the exercises of notebook 5."""


def speedup(alpha, gamma, c, v):
    """Tokens per round over cost per round; as a sum, the geometric series needs no special case at alpha = 1."""
    return sum(alpha**i for i in range(gamma + 1)) / (gamma * c + v)


def best_gamma(alpha, c, most):
    """`max` returns the first of equally good ones. 0 takes part: at 0 the formula is 1, the plain loop."""
    return max(range(most + 1), key=lambda gamma: speedup(alpha, gamma, c, 1))


def break_even_alpha(gamma, c):
    """The speed-up rises with alpha, so halving finds where it passes 1. For gamma = 1 the answer is c itself."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if speedup(middle, gamma, c, 1) < 1:
            low = middle
        else:
            high = middle
    return high


def three_rates(drafted, accepted):
    """A round that rejected something tested one token more than it accepted; and every round adds one token of the target's."""
    tested = sum(n + (n < k) for k, n in zip(drafted, accepted))
    return sum(accepted) / sum(drafted), sum(accepted) / tested, (sum(accepted) + len(accepted)) / len(accepted)
