"""Plausible wrong answers to the exercises of notebook 3."""
import torch

from decoding.proof import mistakes


def chance_of_keeping(p, q):
    """The mean over the faces, as if the draft rolled all of them equally often."""
    return torch.where(q > 0, p / q, 1).clamp(max=1).mean()


def third_die(p, q):
    """A softmax gives every token a share, also those that are not missing."""
    return (p - q).clamp(min=0).softmax(-1)


def distribution_when_redrawn(p, q):
    """"Each redraw is from p, so the result is p.\""""
    return p


def distribution_of_a_greedy_draft(p, q):
    """"Rejection sampling corrects any draft.\""""
    return p


def keep(x, p, q, u):
    """One character too many."""
    return bool(u <= p[x] / q[x])


def one_token(x, p, q, u):
    """"The target is asked again.\""""
    return torch.eye(len(p), dtype=p.dtype)[x] if u < p[x] / q[x] else p


my_rule = mistakes.count_all_passed
