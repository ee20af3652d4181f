"""The closed forms of Leviathan et al. 2023, and what they assume.

alpha: the probability that a drafted token is accepted: the same at every position, and independent
    of the others.
gamma: tokens drafted per round, never cut short.
c: cost of one draft step over one target step.
v: cost of verifying gamma + 1 tokens over one target step; the paper takes v = 1.
"""


def expected_tokens_per_round(alpha: float, gamma: int) -> float:
    """Return the tokens emitted per round: equation (1) of the paper.

    The paper writes (1 - alpha^(gamma+1)) / (1 - alpha). Here it is the sum of that geometric
    series, which needs no special case at alpha = 1: alpha^i is the probability that the first i
    drafted tokens are all accepted. Raises ValueError for what is no probability or no count.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is a probability, not {alpha}")
    if gamma < 0:
        raise ValueError(f"gamma must be at least 0, not {gamma}")
    return sum(alpha**i for i in range(gamma + 1))


def expected_accepted_per_round(alpha: float, gamma: int) -> float:
    """Return the drafted tokens accepted per round: all emitted ones but the extra token."""
    return expected_tokens_per_round(alpha, gamma) - 1


def expected_speedup(alpha: float, gamma: int, c: float, v: float = 1.0) -> float:
    """Return the tokens per second over those of the plain loop.

    Theorem 3.8 of the paper, with its v = 1 made visible. Raises ValueError for negative costs.
    """
    if c < 0 or v <= 0:
        raise ValueError(f"costs cannot be negative: c = {c}, v = {v}")
    return expected_tokens_per_round(alpha, gamma) / (gamma * c + v)
