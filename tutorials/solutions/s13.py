"""Solutions to the exercises of notebook 13."""
import torch

from decoding.acceptance import residual
from decoding.random import draw, uniform


def who_sees_whom(parents):
    """What the parent sees, and itself. Parents come first, so their rows are ready."""
    sees = torch.eye(len(parents), dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            sees[i] |= sees[parent]
    return sees


def where_they_stand(parents, start):
    """One position after the parent; the text's own tokens stand at 0 .. start - 1."""
    positions: list[int] = []
    for parent in parents:
        positions.append(start if parent < 0 else positions[parent] + 1)
    return positions


def chance_of_two_candidates(p, q):
    """The first is kept with sum min(p, q). For each x that may be rejected the second one meets
    what is left of p and of q.
    """
    chance = torch.minimum(p, q).sum()
    for x, rejected in enumerate((q - p).clamp(min=0)):  # the probability that x is rejected
        others = q.clone()
        others[x] = 0
        if rejected > 0 and others.sum() > 0:
            chance = chance + rejected * torch.minimum(residual(p, q), others / others.sum()).sum()
    return chance


def token_of_a_place(candidates, p, q, generator):
    """Test, and on a rejection take from p what q covers, and from q the token."""
    for x in candidates.tolist():
        if uniform((1,), generator, p.device) < p[x] / q[x]:
            return x
        p, q = residual(p, q), q.clone()
        q[x] = 0
        q = q / q.sum()
    return draw(p[None], generator).item()


def visible_columns(lengths, T):
    """Token t of text b stands at lengths[b] + t, and sees every column up to there."""
    positions = torch.tensor(lengths)[:, None] + torch.arange(T)  # (B, T)
    return torch.arange(max(lengths) + T) <= positions[..., None]  # (B, T, S)


def speedup_of_a_batch(rounds, tokens, gamma, step, verify, draft):
    """All texts wait for the one with the most rounds. The plain loop takes a step per token."""
    return tokens * step / (max(rounds) * (verify + gamma * draft))
