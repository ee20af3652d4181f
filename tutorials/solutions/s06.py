"""Solutions to the exercises of notebook 6."""
import torch

from decoding.acceptance import Acceptance, leading, residual
from decoding.random import draw, uniform


def law_with_a_softmax(p, q):
    """Kept as always, min(p, q); what is thrown away goes to every token, those that are not missing included."""
    kept = torch.minimum(p, q)
    return kept + (1 - kept.sum()) * (p - q).clamp(min=0).softmax(-1)


def repaired_rule(drafted, q, p, generator):
    """Three repairs: < for <=, only what was passed before the first failure counts, and the residual in place of p."""
    k = len(drafted)
    places = torch.arange(k)
    u = uniform((k,), generator, p.device)
    n = leading(u < p[places, drafted] / q[places, drafted])
    last = p[n] if n == k else residual(p[n], q[n])
    return Acceptance(n, draw(last, generator))


def ends_well(tokens, eos, max_new_tokens):
    """End-of-text may stand at the very end only, and the budget holds; a text that was cut by its budget has no end-of-text."""
    return eos not in tokens[:-1] and len(tokens) <= max_new_tokens


def same_law(found, wanted):
    """First the same texts, also those of probability 0: what cannot be written must not be possible. Then the numbers."""
    return found.keys() == wanted.keys() and all(abs(found[text] - wanted[text]) <= 1e-9 for text in wanted)
