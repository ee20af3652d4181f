"""More of the museum: rules and drafters that look like savings. Same shape as in mistakes.py."""
import torch

from decoding.acceptance import Acceptance, leading, residual
from decoding.drafters import ModelDrafter
from decoding.proof.mistakes import pad, ratios
from decoding.random import draw, uniform


def bonus_by_argmax(drafted, q, p, generator):
    """Take the target's favourite as the bonus, also where a draw is wanted."""
    n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
    if n == len(drafted):
        return Acceptance(n, p[n].argmax(-1))
    return Acceptance(n, draw(residual(p[n], q[n]), generator))


def threshold_without_draw(drafted, q, p, generator):
    """Keep what the target likes at least as well as the draft does, p >= q, and nothing else."""
    n = leading(ratios(drafted, q, p) >= 1)
    return Acceptance(n, draw(residual(p[n], pad(q)[n]), generator))


def typical_acceptance(drafted, q, p, generator, epsilon=0.3, delta=0.6):
    """Keep what is typical of the target: p(x) > min(epsilon, delta * exp(-entropy)).

    Medusa's rule (Cai et al. 2024, arXiv 2401.10774). Its delta is smaller, since real models have
    more than three tokens.
    """
    entropy = torch.special.entr(p[:-1]).sum(-1)  # (k,)
    limit = (delta * (-entropy).exp()).clamp(max=epsilon)
    n = leading(p[:-1].gather(1, drafted[:, None]).squeeze(1) > limit)
    return Acceptance(n, draw(p[n], generator))


def invert(probs, u):
    """Return the token whose part of [0, 1) a number lies in. probs: (n_vocab,), u: () -> (1,)"""
    return (u >= probs.cumsum(-1)[:-1] / probs.sum()).sum(-1, keepdim=True)


def same_number_for_test_and_residual(drafted, q, p, generator):
    """Draw the correction with the number that has just failed the test: it is never small."""
    u = uniform((len(drafted),), generator, p.device)
    n = leading(u < ratios(drafted, q, p))
    if n == len(drafted):
        return Acceptance(n, draw(p[n], generator))
    return Acceptance(n, invert(residual(p[n], q[n])[0], u[int(n)]))


class Remembered:
    """A generator for a drafter: one number for each draw, and it keeps them."""

    def __init__(self, generator):
        self.generator, self.numbers = generator, []

    def draw(self, probs):
        self.numbers.append(uniform((), self.generator, probs.device))
        return invert(probs[0], self.numbers[-1])

    def uniform(self, shape):
        return uniform(shape, self.generator, torch.device("cpu"))


class SharedNoise(ModelDrafter):
    """Draws its tokens with one number for each position, which `rule` uses again.

    The number that chose a rejected token then also chooses the correction in its place.
    """

    def propose(self, tokens, k, sampling, generator):
        noise = Remembered(generator)
        self.noise = noise.numbers
        return super().propose(tokens, k, sampling, noise)

    def rule(self, drafted, q, p, generator):
        n = leading(uniform((len(drafted),), generator, p.device) < ratios(drafted, q, p))
        left = residual(p[n], pad(q)[n])
        if n == len(drafted) or not self.noise:  # the bonus, or a greedy run, which draws nothing
            return Acceptance(n, draw(left, generator))
        return Acceptance(n, invert(left[0], self.noise[n]))


class CarefulDrafter(ModelDrafter):
    """Stops drafting at a token that it finds unlikely itself.

    keep: propose that token as the last one, which is exact, or drop it, which is not: then it
        depends on the token whether it is tested.
    """

    def __init__(self, model, least, keep):
        super().__init__(model)
        self.least, self.keep = least, keep

    def propose(self, tokens, k, sampling, generator):
        drafted, q = super().propose(tokens, k, sampling, generator)
        sure = leading(q.gather(1, drafted[:, None]).squeeze(1) >= self.least).item()
        k = min(len(drafted), sure + self.keep)
        return drafted[:k], q[:k]
