"""Solutions to the exercises of notebook 7."""


def gumbel_choice(p, u):
    """The largest score. log 0 is minus infinity, so a face of probability 0 has no chance."""
    return (p.log() - (-u.log()).log()).argmax().item()


def promised_agreement(p, q):
    """(1 - TV) / (1 + TV), TV being half the sum of the absolute differences."""
    tv = (p - q).abs().sum() / 2
    return (1 - tv) / (1 + tv)


def chance_without_sharing(p, q):
    """Independent rolls both show x with probability p(x) q(x). Even equal dice agree rarely."""
    return (p * q).sum()


def keep_while_same(drafted, p):
    """The target has one choice at each position. The first token that is another one ends it."""
    choice = p.argmax(-1).tolist()
    n = 0
    while n < len(drafted) and drafted[n] == choice[n]:
        n += 1
    return n, choice[n]
