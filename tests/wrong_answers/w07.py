"""Plausible wrong answers to the exercises of notebook 7."""


def gumbel_choice(p, u):
    """Uniform noise instead of Gumbel noise: not a draw from p."""
    return (p.log() + u).argmax().item()


def promised_agreement(p, q):
    """The most that is possible, not what is promised."""
    return 1 - (p - q).abs().sum() / 2


def chance_without_sharing(p, q):
    """What rejection sampling reaches by looking at both dice."""
    return p.minimum(q).sum()


def keep_while_same(drafted, p):
    """Counts every drafted token that is the target's choice, also after the first that is not."""
    choice = p.argmax(-1)
    n = int((drafted == choice[:-1]).sum())
    return n, choice[n].item()
