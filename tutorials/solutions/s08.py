"""Solutions to the exercises of notebook 8."""
import torch


def alpha_of_a_sure_draft(p, x):
    """min(1, p(x)/q(x)) with q(x) = 1."""
    return p[x]


def look_up(tokens, n, k):
    """Search from the back: the latest match is met first. The ending itself is no match."""
    for start in range(len(tokens) - n - 1, -1, -1):
        if tokens[start : start + n] == tokens[-n:]:
            return tokens[start + n : start + n + k]
    return []


def best_temperature(p, logits, temperatures):
    """The largest overlap, the sum of min(p, q). A sharp target wants a sharp draft."""
    def alpha(temperature):
        return torch.minimum(p, (logits / temperature).softmax(-1)).sum()
    return max(temperatures, key=alpha)


def row_of_a_mixture(q1, q2, w):
    """The probability of a token, whichever draft it comes from."""
    return w * q1 + (1 - w) * q2
