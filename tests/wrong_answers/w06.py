"""Plausible wrong answers to the exercises of notebook 6."""
import torch

from decoding.acceptance import Acceptance, leading, residual
from decoding.random import draw, uniform


def distribution_with_a_softmax(p, q):
    """The softmax taken for the normalisation that it is not: then p would come out."""
    return p


def repaired_rule(drafted, q, p, generator):
    """The <= was overlooked: right wherever the target can write every token."""
    k = len(drafted)
    positions = torch.arange(k)
    u = uniform((k,), generator, p.device)
    n = leading(u <= p[positions, drafted] / q[positions, drafted])
    last = p[n] if n == k else residual(p[n], q[n])
    return Acceptance(n, draw(last, generator))


def ends_well(tokens, eos, max_new_tokens):
    """Looks at the last token only: an end-of-text before it goes unnoticed."""
    return (eos not in tokens or tokens[-1] == eos) and len(tokens) <= max_new_tokens


def same_distribution(found, wanted):
    """Only the texts that are wanted are compared: what should be impossible is not looked at."""
    return all(abs(found.get(text, 0) - wanted[text]) <= 1e-9 for text in wanted)
