"""Checks of notebook 4.

The truth is the project's own probabilities, its own rule enumerated, or a plain count.
"""
import torch
import torch.nn.functional as F

from decoding import GREEDY, Sampling
from decoding.acceptance import accept_sampled, leading
from decoding.proof.enumerate import distribution_of
from decoding.random import uniform
from decoding.sampling import to_probs
from tutorials.grading import check

SAMPLES = [([(1, 2), (1, 2), (3, 4), (5, 6)], [(1, 2), (3, 4), (3, 4), (5, 6)]),
           ([(1,), (2,)], [(2,), (1,)]), ([(1,)], [(2,), (3,)]),
           ([(1,), (2,)], [(1,), (2,), (2,), (2,), (3,)])]
LOGITS = torch.tensor([[[2.0, 1.0, 0.0, -1.0], [0.0, 0.5, 0.0, 3.0], [1.0, 1.5, 0.5, 0.0]],
                       [[1.0, 2.0, 0.0, -2.0], [0.5, 0.0, 0.0, 2.0], [0.0, 2.5, 1.0, 1.0]]],
                      dtype=torch.float64)
P, Q = to_probs(LOGITS, Sampling())
SETTINGS = Sampling(), Sampling(0.5), Sampling(top_k=2), Sampling(2.0, top_p=0.7), GREEDY
BLOCKS = [[0.5, 0.5], [0.9, 0.2, 0.6], [1.0, 0.25], [0.0, 0.8], []]


def check_sample_distance(answer) -> str:
    def shares(sample, texts):
        return torch.tensor([sample.count(text) / len(sample) for text in texts])

    def truth(a, b):
        texts = {*a, *b}
        return (shares(a, texts) - shares(b, texts)).abs().sum().item() / 2

    return check(answer, truth, SAMPLES)


def check_p_value(answer) -> str:
    def truth(observed, shuffled):
        everything = [observed, *shuffled.tolist()]
        return sum(distance >= observed for distance in everything) / len(everything)

    distances = torch.tensor([0.125, 0.25, 0.0625, 0.5], dtype=torch.float64)
    return check(answer, truth, [(observed, distances) for observed in (0.25, 0.75, 0.0, 0.3)])


def check_mean_acceptance(answer) -> str:
    def truth(p_logits, q_logits, sampling):
        p, q = to_probs(p_logits, sampling), to_probs(q_logits, sampling)
        return torch.minimum(p, q).sum(-1).mean()

    return check(answer, truth, [(*LOGITS, sampling) for sampling in SETTINGS])


def check_acceptance_of_a_greedy_draft(answer) -> str:
    def truth(p, q):
        return torch.tensor([chance_of_keeping(row.argmax()[None], one_hot(row), p[i])
                             for i, row in enumerate(q)])

    return check(answer, truth, [(P, Q), (Q, P), (P, P)])


def check_distribution_of_accepted(answer) -> str:
    def truth(beta):
        def program(generator):
            return leading(uniform((len(beta),), generator, beta.device) < beta).item()

        found = distribution_of(program)
        return torch.tensor([found.get(n, 0.0) for n in range(len(beta) + 1)])

    return check(answer, truth, [(torch.tensor(beta, dtype=torch.float64),) for beta in BLOCKS])


def chance_of_keeping(drafted, q, p):
    """Enumerate one drafted token: return the probability that the project's rule keeps it."""
    def program(generator):
        return accept_sampled(drafted, q[None], torch.stack([p, p]), generator).n.item()

    return distribution_of(program).get(1, 0.0)


def one_hot(q):
    return F.one_hot(q.argmax(), len(q)).to(q.dtype)
