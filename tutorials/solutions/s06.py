"""Solutions to the exercises of notebook 6."""
import torch

from decoding.acceptance import Acceptance, leading, residual
from decoding.random import draw, uniform


def distribution_with_a_softmax(p, q):
    """Kept as always, min(p, q). What is thrown away goes to every token, missing or not."""
    kept = torch.minimum(p, q)
    return kept + (1 - kept.sum()) * (p - q).clamp(min=0).softmax(-1)


def repaired_rule(drafted, q, p, generator):
    """Three repairs: < for <=, the residual for p, and no test counts after the first failure."""
    k = len(drafted)
    positions = torch.arange(k)
    u = uniform((k,), generator, p.device)
    n = leading(u < p[positions, drafted] / q[positions, drafted])
    last = p[n] if n == k else residual(p[n], q[n])
    return Acceptance(n, draw(last, generator))


def ends_well(tokens, eos, max_new_tokens):
    """End-of-text may stand at the very end only, and the budget holds.

    A text that was cut by its budget has no end-of-text.
    """
    return eos not in tokens[:-1] and len(tokens) <= max_new_tokens


def same_distribution(found, wanted):
    """First the same texts, also those of probability 0: they can be written. Then the numbers."""
    same_texts = found.keys() == wanted.keys()
    return same_texts and all(abs(found[text] - wanted[text]) <= 1e-9 for text in wanted)
