"""Plausible wrong answers to the exercises of notebook 8."""


def alpha_of_a_sure_draft(p, x):
    """The ratio of p to the target's own favourite."""
    return p[x] / p.max()


def look_up(tokens, n, k):
    """The first match instead of the latest."""
    for start in range(len(tokens) - n):
        if tokens[start : start + n] == tokens[-n:]:
            return tokens[start + n : start + n + k]
    return []


def best_temperature(p, logits, temperatures):
    """"A good draft is a sure draft.\""""
    return min(temperatures)


def row_of_a_mixture(q1, q2, w):
    """The row of the draft that is more likely to be asked."""
    return q1 if w >= 0.5 else q2
