"""Plausible wrong answers to the exercises of notebook 2."""


def kept(drafted, choices):
    """Counts every agreement, also after the first difference."""
    return sum(a == b for a, b in zip(drafted, choices))


def emitted(drafted, choices):
    """Forgets the bonus."""
    for i, (ours, theirs) in enumerate(zip(drafted, choices)):
        if ours != theirs:
            return [*drafted[:i], theirs]
    return drafted


def cache_lengths(L, k, n):
    """As if the draft had read its own last proposal."""
    return [L + k, L + n, L + k, L + n]


def rounds_of_a_perfect_draft(new_tokens, gamma):
    """Forgets that each round also gives the bonus."""
    return -(-new_tokens // max(gamma, 1))


def break_even(gamma, c, v):
    """Forgets that verifying may cost more than a step."""
    return gamma * c + 1
