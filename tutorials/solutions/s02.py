"""Solutions to the exercises of notebook 2."""


def kept(drafted, choices):
    """Count up to the first difference: what comes after it follows a token not in the text."""
    n = 0
    while n < len(drafted) and drafted[n] == choices[n]:
        n += 1
    return n


def emitted(drafted, choices):
    """The kept ones are the target's choices too. One more follows: the correction or the bonus."""
    return choices[:kept(drafted, choices) + 1]


def cache_lengths(L, k, n):
    """The text then has L + n + 1 tokens, and the target holds all but the last.

    The draft never read its last proposal.
    """
    target_read, draft_read, wanted = L + k, L + k - 1, L + n
    return [target_read, wanted, draft_read, min(draft_read, wanted)]


def rounds_of_a_perfect_draft(new_tokens, gamma):
    """Each round gives gamma tokens and the bonus; the last one may be shorter. Rounded up."""
    return -(-new_tokens // (gamma + 1))


def break_even(gamma, c, v):
    """Plain decoding gives one token per step, so a round must give as many as it costs steps."""
    return gamma * c + v
