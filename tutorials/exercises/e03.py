"""Checks of notebook 3.

The truth is the enumeration of the project's own rule, or of the wrong one that is meant.
"""
import torch

from decoding.acceptance import accept_sampled, residual
from decoding.proof import mistakes
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from tutorials.grading import Mistake, check, dice, fresh
from tutorials.tutor import check_rule

DICE = [([0.4, 0.3, 0.2, 0.1], [0.2, 0.5, 0.1, 0.2]), ([0.6, 0.4], [0.8, 0.2]),
        ([0.0, 0.5, 0.5], [0.5, 0.25, 0.25]), ([1.0, 0.0], [0.0, 1.0]),
        ([0.25, 0.75], [0.25, 0.75])]
CASES = [(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64))
         for p, q in DICE]
RULE, PROOF, REDRAW, REAL_Q = ("3 The rule", "3 The proof, four lines beside their picture",
                               "3 Why not redraw from p?",
                               "3 Why the ratio needs the q that was really used")
SOFTMAX = "6 Exhibit 2. A softmax for the residual"
EQUAL = "6 Exhibit 10. Less, or equal"


def check_chance_of_keeping(answer, seed=None) -> str:
    known = [Mistake(lambda p, q: torch.where(q > 0, p / q, 1).clamp(max=1).mean(), "the faces are "
                     "averaged as if the draft rolled all of them equally often", RULE),
             Mistake(lambda p, q: (p * q).sum(), "two dice are rolled and must show the same face: "
                     "the rule keeps more", RULE),
             Mistake(lambda p, q: torch.minimum(p, q), "the sum over the faces is missing", PROOF),
             Mistake(lambda p, q: 1 - torch.minimum(p, q).sum(), "the token is thrown away, and "
                     "not kept", PROOF)]
    return check(answer, lambda p, q: paths(p, q)[1], CASES + fresh(seed, dice), known=known)


def check_third_die(answer, seed=None) -> str:
    p, q = CASES[0]
    rows = torch.stack([p, q, p]), torch.stack([q, p, p])
    known = [Mistake(lambda p, q: (p - q).clamp(min=0).softmax(-1), "a softmax takes the place of "
                     "the division: it gives a share to tokens that are not missing", SOFTMAX),
             Mistake(lambda p, q: (p - q).softmax(-1), "a softmax of p - q is taken: it gives a "
                     "share to tokens that are not missing", SOFTMAX),
             Mistake(lambda p, q: residual(q, p), "q - p is taken: that is what the draft has too "
                     "much of", RULE),
             Mistake(lambda p, q: (p - q).clamp(min=0), "the division by the sum is missing", RULE),
             Mistake(lambda p, q: (p - q).clamp(min=0) / (p - q).clamp(min=0).sum(-1, keepdim=True),
                     "p = q is forgotten: nothing is missing there, and 0/0 is no number", RULE),
             Mistake(lambda p, q: p, "a rejected token is redrawn from p", REDRAW)]
    return check(answer, residual, [*CASES, rows, *fresh(seed, dice)], known=known)


def check_distribution_when_redrawn(answer, seed=None) -> str:
    known = [Mistake(lambda p, q: p, "the third die is rolled: this is p, what the right rule "
                     "gives; where each redraw is from p, what was kept before has had its share "
                     "already", REDRAW)]
    return check(answer, lambda p, q: paths(p, q, rule=mistakes.redraw_from_p)[0],
                 CASES + fresh(seed, dice), known=known)


def check_distribution_of_a_greedy_draft(answer, seed=None) -> str:
    def truth(p, q):
        return paths(p, q, propose=lambda generator: q.argmax()[None])[0]

    known = [Mistake(lambda p, q: p, "rejection sampling is trusted with any draft: it "
                     "corrects one whose "
                     "q is the one that was drawn from", REAL_Q),
             Mistake(lambda p, q: paths(p, q)[0], "the draft draws from q: here it always proposes "
                     "its favourite", REAL_Q)]
    return check(answer, truth, CASES + fresh(seed, dice), known=known)


def check_keep(answer, seed=None) -> str:
    def truth(x, p, q, u):
        return bool(u < p[x] / q[x])

    def more(rng):
        p, q = dice(rng)
        return rng.randrange(len(p)), p, q, rng.random()

    p, q = CASES[0]
    (impossible, likely), (sure, never) = CASES[2], CASES[3]
    cases = [(1, p, q, 0.59), (1, p, q, 0.61), (0, p, q, 0.99), (3, p, q, 0.4), (3, p, q, 0.6),
             (2, p, q, 0.75), (0, impossible, likely, 0.0), (0, impossible, likely, 0.3),
             (1, sure, never, 0.0), (1, p, q, 0.0), (1, p, q, 0.55), (0, p, q, 0.3)]
    known = [Mistake(lambda x, p, q, u: bool(u <= p[x] / q[x]), "a token is kept at u <= p/q: if "
                     "p = 0 and u = 0, that keeps what the target never writes", EQUAL),
             Mistake(lambda x, p, q, u: bool(p[x] >= q[x]), "a token is kept if p >= q and never "
                     "otherwise", "6 Exhibit 13. A threshold for the draw"),
             Mistake(lambda x, p, q, u: bool(u * p[x] < q[x]), "u is compared with q/p in place of "
                     "p/q", RULE),
             Mistake(lambda x, p, q, u: bool(u < p[x]), "u is compared with p alone: that is the "
                     "rule for a draft that is sure, q = 1", REAL_Q),
             Mistake(lambda x, p, q, u: bool(u < min(p[x], q[x])), "u is compared with min(p, q): "
                     "that is the chance to be drafted and kept, and x is drafted already", RULE),
             Mistake(lambda x, p, q, u: bool(u >= p[x] / q[x]), "a token is thrown away where it "
                     "should be kept, and the other way round", RULE)]

    def keep(*case):
        return as_bool(answer(*case))

    return check(keep, truth, cases + fresh(seed, more), known=known, of=answer)


def as_bool(value):
    """Return a tensor with a single truth value as True or False."""
    single = isinstance(value, torch.Tensor) and value.dtype == torch.bool and value.numel() == 1
    return bool(value) if single else value


def check_one_token(answer, seed=None) -> str:
    def after(rejected):  # the mistake: what follows a rejection
        return lambda x, p, q, u: one_hot(x, p) if u < p[x] / q[x] else rejected(p, q)

    def test(passed):  # the mistake: what is kept
        return lambda x, p, q, u: one_hot(x, p) if passed(x, p, q, u) else residual(p, q)

    def more(rng):
        p, q = dice(rng)
        return rng.randrange(len(p)), p, q, rng.random()

    p, q = CASES[0]
    (impossible, likely) = CASES[2]
    cases = [(1, p, q, 0.5), (1, p, q, 0.7), (0, p, q, 0.9), (3, p, q, 0.51), (2, p, q, 0.2),
             (0, impossible, likely, 0.0), (0, impossible, likely, 0.4), (0, p, q, 0.3)]
    known = [Mistake(test(lambda x, p, q, u: u <= p[x] / q[x]), "a token is kept at u <= p/q: if "
                     "p = 0 and u = 0, that keeps what the target never writes", EQUAL),
             Mistake(test(lambda x, p, q, u: u < p[x]), "u is compared with p alone: that is the "
                     "rule for a draft that is sure, q = 1", REAL_Q),
             Mistake(test(lambda x, p, q, u: u * p[x] < q[x]), "u is compared with q/p in place of "
                     "p/q", RULE),
             Mistake(after(lambda p, q: (p - q).softmax(-1)), "the residual is a softmax of p - q, "
                     "which gives every token a share", SOFTMAX),
             Mistake(after(lambda p, q: residual(q, p)), "the residual is made of q - p: that is "
                     "what the draft has too much of", RULE),
             Mistake(after(lambda p, q: p), "a rejected token is redrawn from p", REDRAW),
             Mistake(after(lambda p, q: (p - q).clamp(min=0).softmax(-1)), "the residual goes "
                     "through a softmax, which gives every token a share", SOFTMAX),
             Mistake(after(lambda p, q: (p - q).clamp(min=0)), "the residual is not divided by its "
                     "sum", RULE),
             Mistake(after(lambda p, q: (p - q).abs() / (p - q).abs().sum()), "the residual is "
                     "|p - q|, without max(0, ...)", RULE),
             Mistake(lambda x, p, q, u: residual(p, q), "the third die is rolled for every token, "
                     "kept or not", RULE)]
    return check(answer, after(residual), cases + fresh(seed, more), known=known)


def one_hot(x, p):
    """Return the row that is sure of x."""
    return torch.nn.functional.one_hot(torch.tensor(x), len(p)).to(p.dtype)


def check_my_rule(answer, seed=None) -> str:
    return check_rule(answer, seed)


def paths(p, q, rule=accept_sampled, propose=None):
    """Enumerate one drafted token.

    Returns the distribution of what comes out, and the probability that the drafted one is kept.
    """
    def program(generator):
        drafted = draw(q[None], generator) if propose is None else propose(generator)
        verdict = rule(drafted, q[None], torch.stack([p, p]), generator)
        return bool(verdict.n), (drafted if verdict.n else verdict.token).item()

    out, kept = torch.zeros_like(p), 0.0
    for (was_kept, token), probability in distribution_of(program).items():
        out[token] += probability
        kept += was_kept * probability
    return out, kept
