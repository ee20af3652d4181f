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
from tutorials.grading import Mistake, check, die, fresh

SAMPLES = [([(1, 2), (1, 2), (3, 4), (5, 6)], [(1, 2), (3, 4), (3, 4), (5, 6)]),
           ([(1,), (2,)], [(2,), (1,)]), ([(1,)], [(2,), (3,)]),
           ([(1,), (2,)], [(1,), (2,), (2,), (2,), (3,)])]
LOGITS = torch.tensor([[[2.0, 1.0, 0.0, -1.0], [0.0, 0.5, 0.0, 3.0], [1.0, 1.5, 0.5, 0.0]],
                       [[1.0, 2.0, 0.0, -2.0], [0.5, 0.0, 0.0, 2.0], [0.0, 2.5, 1.0, 1.0]]],
                      dtype=torch.float64)
P, Q = to_probs(LOGITS, Sampling())
SETTINGS = Sampling(), Sampling(0.5), Sampling(top_k=2), Sampling(2.0, top_p=0.7), GREEDY
BLOCKS = [[0.5, 0.5], [0.9, 0.2, 0.6], [1.0, 0.25], [0.0, 0.8], []]
DISTANCE, RATE, BLOCK = ("4 The distribution, as a user would check it",
                         "4 How often is the draft right?", "4 Position by position in the block")


def check_sample_distance(answer, seed=None) -> str:
    def shares(sample, texts):
        return torch.tensor([sample.count(text) / len(sample) for text in texts])

    def truth(a, b):
        texts = {*a, *b}
        return (shares(a, texts) - shares(b, texts)).abs().sum().item() / 2

    def more(rng):
        return tuple([(rng.randint(0, 3),) for _ in range(rng.randint(1, 6))] for _ in range(2))

    known = [Mistake(lambda a, b: sum(abs(a.count(text) / len(a) - b.count(text) / len(b))
                                      for text in {*a}) / 2, "only the texts of the first sample "
                     "are compared", DISTANCE),
             Mistake(lambda a, b: 2 * truth(a, b), "the sum is not halved", DISTANCE)]
    return check(answer, truth, SAMPLES + fresh(seed, more), known=known)


def check_p_value(answer, seed=None) -> str:
    def truth(observed, shuffled):
        everything = [observed, *shuffled.tolist()]
        return sum(distance >= observed for distance in everything) / len(everything)

    distances = torch.tensor([0.125, 0.25, 0.0625, 0.5], dtype=torch.float64)
    cases = [(observed, distances) for observed in (0.25, 0.75, 0.0, 0.3)]
    cases += fresh(seed, lambda rng: (rng.random() / 2, die(rng, rng.randint(3, 9))))
    known = [Mistake(lambda observed, shuffled: (shuffled >= observed).double().mean().item(),
                     "the real cut does not count: it is one of those that chance can make",
                     DISTANCE),
             Mistake(lambda observed, shuffled: (1 + (shuffled > observed).sum().item())
                     / (1 + len(shuffled)), "a distance that is equal does not count", DISTANCE)]
    return check(answer, truth, cases, known=known)


def check_mean_acceptance(answer, seed=None) -> str:
    def truth(p_logits, q_logits, sampling):
        p, q = to_probs(p_logits, sampling), to_probs(q_logits, sampling)
        return torch.minimum(p, q).sum(-1).mean()

    def more(rng):
        logits = torch.tensor([[[rng.gauss(0, 2) for _ in range(4)] for _ in range(3)]
                               for _ in range(2)], dtype=torch.float64)
        return *logits, rng.choice(SETTINGS)

    def without(change):
        return lambda p, q, sampling: torch.minimum(*change(p, q, sampling)).sum(-1).mean()

    known = [Mistake(without(lambda p, q, sampling: (to_probs(p, sampling), q.softmax(-1))),
                     "the settings are used for the target alone", RATE),
             Mistake(without(lambda p, q, sampling: (p.softmax(-1), q.softmax(-1))),
                     "the settings are not used", RATE),
             Mistake(lambda p, q, sampling: 3 * truth(p, q, sampling), "the positions are summed, "
                     "and not averaged", RATE)]
    return check(answer, truth, [(*LOGITS, sampling) for sampling in SETTINGS] + fresh(seed, more),
                 known=known)


def check_acceptance_of_a_greedy_draft(answer, seed=None) -> str:
    def truth(p, q):
        return torch.tensor([chance_of_keeping(row.argmax()[None], one_hot(row), p[i])
                             for i, row in enumerate(q)])

    def more(rng):
        return tuple(torch.stack([die(rng, 4) for _ in range(3)]) for _ in range(2))

    known = [Mistake(lambda p, q: torch.minimum(p, q).sum(-1), "the draft is taken for one that "
                     "draws from q", RATE),
             Mistake(lambda p, q: p.amax(-1), "the target's favourite is taken for the draft's",
                     RATE),
             Mistake(lambda p, q: (p.gather(-1, q.argmax(-1, keepdim=True))[:, 0]
                                   / q.amax(-1)).clamp(max=1), "the ratio is made with the soft q, "
                     "from which the token was not drawn",
                     "6 Exhibit 3. A greedy draft with a soft q")]
    return check(answer, truth, [(P, Q), (Q, P), (P, P), *fresh(seed, more)], known=known)


def check_distribution_of_accepted(answer, seed=None) -> str:
    def truth(beta):
        def program(generator):
            return leading(uniform((len(beta),), generator, beta.device) < beta).item()

        found = distribution_of(program)
        return torch.tensor([found.get(n, 0.0) for n in range(len(beta) + 1)])

    def all_passed(beta):
        found = distribution_of(lambda generator: int(
            (uniform((len(beta),), generator, beta.device) < beta).sum()))
        return torch.tensor([found.get(n, 0.0) for n in range(len(beta) + 1)])

    def more(rng):
        return torch.tensor([rng.random() for _ in range(rng.randint(1, 4))], dtype=torch.float64),

    cases = [(torch.tensor(beta, dtype=torch.float64),) for beta in BLOCKS]
    known = [Mistake(all_passed, "tests that were passed after the first rejection count, too",
                     BLOCK),
             Mistake(lambda beta: torch.cat([beta.new_ones(1), beta.cumprod(0)]), "the question is "
                     "at least n tokens, and not exactly n", BLOCK)]
    return check(answer, truth, cases + fresh(seed, more), known=known)


def chance_of_keeping(drafted, q, p):
    """Enumerate one drafted token: return the probability that the project's rule keeps it."""
    def program(generator):
        return accept_sampled(drafted, q[None], torch.stack([p, p]), generator).n.item()

    return distribution_of(program).get(1, 0.0)


def one_hot(q):
    return F.one_hot(q.argmax(), len(q)).to(q.dtype)
