"""Solutions to the exercises of notebook 12."""
import torch

from decoding.acceptance import Acceptance, residual
from decoding.random import draw, uniform


def chances_to_keep(ratios):
    """A running product that never passes 1: what is too much at one position is lost there."""
    P, chances = 1.0, []
    for ratio in ratios:
        P = min(1.0, P * ratio)
        chances.append(P)
    return chances


def chance_to_end_here(P, p, q):
    """R over R + 1 - P; where both are 0 the next token is kept for certain, and any h will do."""
    R = (P * p - q).clamp(min=0).sum()
    return R / (R + 1 - P) if R + 1 - P > 0 else torch.ones_like(R)


def how_many_stay(u, h):
    """The last test that is passed decides, whatever failed before it."""
    passed = [i for i, (number, chance) in enumerate(zip(u, h), 1) if number < chance]
    return passed[-1] if passed else 0


def tokens_of_a_round(p, q, gamma):
    """How often each P occurs, position by position: a walk that only P has to know.

    The chance to keep i tokens or more is the mean of P_i over the drafts.
    """
    chances, tokens = {1.0: 1.0}, 1.0  # {P: its probability}
    for _ in range(gamma):
        after: dict[float, float] = {}
        for P, chance in chances.items():
            for p_x, q_x in zip(p.tolist(), q.tolist()):
                if q_x > 0:
                    new = min(1.0, P * p_x / q_x)
                    after[new] = after.get(new, 0) + chance * q_x
        chances = after
        tokens += sum(P * chance for P, chance in chances.items())
    return tokens


def my_block_rule(drafted, q, p, generator):
    """`accept_block` as a loop; after the last drafted token q is 0, so h is P there."""
    k = len(drafted)
    q = torch.cat([q, torch.zeros_like(p[:1])])
    u = uniform((k,), generator, p.device)
    P, n, kept = 1.0, 0, 1.0  # kept: the P of the stretch that stays
    for i, x in enumerate(drafted.tolist()):
        P = min(1.0, P * float(p[i, x] / q[i, x]))
        if u[i] < chance_to_end_here(torch.tensor(P), p[i + 1], q[i + 1]):
            n, kept = i + 1, P
    return Acceptance(torch.tensor([n]), draw(residual(kept * p[n], q[n])[None], generator))
