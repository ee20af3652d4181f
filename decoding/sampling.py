"""From logits to probabilities: the only file in which one becomes the other."""
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from decoding.random import Generator, draw, widest


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Target and draft are always given the same one.

    temperature: 0 is greedy, 1 the model's own distribution.
    top_k: keep the k most likely tokens.
    top_p: keep the smallest set of most likely tokens whose mass reaches p.
    Raises ValueError for values that mean nothing.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and at least 0, not {self.temperature}")
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise ValueError(f"top_k must be a whole number of at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


GREEDY = Sampling(temperature=0)
UNCHANGED = Sampling()  # the model's own distribution


def to_probs(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the distribution each row of logits stands for: (..., n_vocab), float32 or wider.

    Temperature first, then top-k, then top-p (Holtzman et al. 2020), each renormalised; of equally
    likely tokens the lower ids are kept. Greedy gives one-hot rows at the first maximum.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.greedy:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    logits = logits - logits.amax(-1, keepdim=True)  # the best is at 0 now: nothing can overflow
    limits = torch.finfo(logits.dtype)
    # A temperature is a double, which can become 0 or infinite as a float.
    temperature = min(max(sampling.temperature, limits.tiny), limits.max)
    probs = (logits / temperature).softmax(-1)
    if sampling.top_k is not None:
        probs = keep_top_k(probs, sampling.top_k)
    if sampling.top_p is not None and sampling.top_p < 1:
        probs = keep_top_p(probs, sampling.top_p)
    return probs


def keep_top_k(probs: Tensor, k: int) -> Tensor:
    """Keep exactly the k most likely tokens of each row, renormalised. (..., n_vocab)"""
    k = min(k, probs.shape[-1])
    smallest_kept = probs.topk(k, dim=-1).values[..., -1:]
    return keep_largest(probs, smallest_kept, k)


def keep_top_p(probs: Tensor, p: float) -> Tensor:
    """Keep the fewest most likely tokens of each row whose mass reaches p, renormalised."""
    ordered, mass = most_likely(probs, p)
    k = ((mass < p).sum(-1, keepdim=True) + 1).clamp(max=probs.shape[-1])  # (..., 1)
    return keep_largest(probs, ordered.gather(-1, k - 1), k)


def most_likely(probs: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the largest probabilities of each row in falling order, and their cumulative sums.

    At least so many that the last sum reaches p. Sorting 50,257 numbers on a CPU takes 30 times as
    long as finding the largest 256, which are mostly enough. On a GPU sorting is fast, but asking
    whether 256 are enough would be expensive: it has to wait for the device.
    """
    n_vocab = probs.shape[-1]
    for size in (256, 4096) if probs.device.type == "cpu" else ():
        ordered = probs.topk(min(size, n_vocab), dim=-1).values
        mass = ordered.cumsum(-1, dtype=widest(probs.device))
        if (mass[..., -1] >= p).all():
            return ordered, mass
    ordered = probs.sort(dim=-1, descending=True).values
    return ordered, ordered.cumsum(-1, dtype=widest(probs.device))


def keep_largest(probs: Tensor, smallest_kept: Tensor, k: Tensor | int) -> Tensor:
    """Keep the k largest entries of each row, given the k-th largest value (..., 1).

    Ties at that value go to the lower ids.
    """
    above = probs > smallest_kept
    tied = probs == smallest_kept
    ties_kept = k - above.sum(-1, keepdim=True)
    kept = torch.where(above | (tied & (tied.cumsum(-1) <= ties_kept)), probs, 0)
    return kept / kept.sum(-1, keepdim=True)


def choose(probs: Tensor, sampling: Sampling, generator: Generator) -> Tensor:
    """Choose the next token of each row: a draw, or the only choice of a greedy run. (...)"""
    return probs.argmax(-1) if sampling.greedy else draw(probs, generator)
