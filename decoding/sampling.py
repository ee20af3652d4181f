"""From logits to probabilities: the only file in which one becomes the other."""
import math
from dataclasses import dataclass
from numbers import Integral

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
        if self.top_k is not None and (not is_whole(self.top_k) or self.top_k < 1):
            raise ValueError(f"top_k must be a whole number of at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def is_whole(value: object) -> bool:
    """Return whether this is a whole number, numpy's included. True and False are not meant."""
    return isinstance(value, Integral) and not isinstance(value, bool)


GREEDY = Sampling(temperature=0)
UNCHANGED = Sampling()  # the model's own distribution


def to_probs(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the distribution each row of logits stands for: (..., n_vocab), float32 or wider.

    Temperature first, then top-k, then top-p (Holtzman et al. 2020), each renormalised; of equally
    likely tokens the lower ids are kept. Greedy gives one-hot rows at the first maximum.

    A logit may be -inf: that token never follows. A row with NaN or +inf, or of -inf alone, stands
    for no distribution and becomes a row of NaN, which `to_host` refuses.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.greedy:
        top, best = logits.max(-1, keepdim=True)  # of equal ones the first
        zero = top - top  # or NaN
        return zero.expand_as(logits).scatter(-1, best, zero + 1)
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
    k = min(int(k), probs.shape[-1])
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
    """Choose the next token of each row: a draw, or the only choice of a greedy run. (...)

    Of a row of NaN it is some token, so that a round can go on until `to_host` refuses it.
    """
    if sampling.greedy:
        return probs.argmax(-1)
    return draw(probs, generator).clamp(max=probs.shape[-1] - 1)


def to_host(ids: list[Tensor], p: Tensor, *q: Tensor) -> list[int]:
    """Return ids as Python numbers, once it is seen that p and q are distributions.

    It is the one call in a round of a chain that waits for the device, so both come in one tensor
    of floats, which hold every id below 2^24 exactly.
    ids: each (n,)
    p, q: (rows, n_vocab), the target's distributions, and the draft's if there is one.
    Raises ValueError, with the model and what to do, for rows of NaN.
    """
    n = sum(map(len, ids))
    numbers = torch.cat([*ids, p[:, 0], *(rows[:, 0] for rows in q)]).tolist()  # one of a row tells
    if math.isnan(sum(numbers)):
        who = "target" if math.isnan(sum(numbers[: n + len(p)])) else "draft"
        raise ValueError(
            f"the {who} computes NaN or infinity instead of logits; take a wider --dtype (float32 "
            "is the widest), and if it is float32 already, another model: the weights are damaged, "
            "or training went wrong")
    return list(map(int, numbers[:n]))
