"""Plausible wrong answers to the exercises of notebook 4."""
import torch

from decoding.proof.enumerate import distribution_of
from decoding.random import uniform
from decoding.sampling import UNCHANGED, to_probs


def sample_distance(a, b):
    """Only over the texts of the first sample."""
    return sum(abs(a.count(text) / len(a) - b.count(text) / len(b)) for text in set(a)) / 2


def p_value(observed, shuffled):
    """Without the real cut: 0, "impossible", where no shuffle came so far."""
    return (shuffled >= observed).double().mean().item()


def mean_acceptance(p_logits, q_logits, sampling):
    """The draft's distribution before temperature and filters."""
    p, q = to_probs(p_logits, sampling), to_probs(q_logits, UNCHANGED)
    return torch.minimum(p, q).sum(-1).mean()


def acceptance_of_a_greedy_draft(p, q):
    """The overlap, as if the draft had been drawn from q."""
    return torch.minimum(p, q).sum(-1)


def distribution_of_accepted(beta):
    """Counts all passed tests, also those after the first failure."""
    def program(generator):
        return int((uniform((len(beta),), generator, beta.device) < beta).sum())

    found = distribution_of(program)
    return torch.tensor([found.get(n, 0.0) for n in range(len(beta) + 1)])
