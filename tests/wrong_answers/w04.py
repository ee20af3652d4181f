"""Plausible wrong answers to the exercises of notebook 4."""
import torch

from decoding.sampling import UNCHANGED, to_probs
from decoding.proof.enumerate import distribution_of


def sample_distance(a, b):
    """Only over the texts of the first sample."""
    return sum(abs(a.count(text) / len(a) - b.count(text) / len(b)) for text in set(a)) / 2


def p_value(observed, shuffled):
    """Without the real cut: 0, "impossible", where no shuffle came so far."""
    return (shuffled >= observed).double().mean().item()


def mean_acceptance(p_logits, q_logits, sampling):
    """The draft's law before temperature and filters."""
    return torch.minimum(to_probs(p_logits, sampling), to_probs(q_logits, UNCHANGED)).sum(-1).mean()


def acceptance_of_a_greedy_draft(p, q):
    """The overlap, as if the draft had been drawn from q."""
    return torch.minimum(p, q).sum(-1)


def law_of_accepted(beta):
    """Counts all passed tests, also those behind the first failure."""
    def program():
        from decoding.sampling import uniform
        return int((uniform((len(beta),), None, None) < beta).sum())

    found = law(program)
    return torch.tensor([found.get(n, 0.0) for n in range(len(beta) + 1)])
