"""From logits to probabilities, and from probabilities to a token."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from decoding.coupling import SharedNoise


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Target and draft are always given the same one.

    temperature: 0 is greedy. top_k: keep the k most likely tokens. top_p: keep the smallest set of most likely tokens
    whose mass reaches p. noise: decide by shared noise instead of by independent draws (decoding/coupling.py). Raises
    ValueError for values that mean nothing.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    noise: SharedNoise | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and at least 0, not {self.temperature}")
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise ValueError(f"top_k must be a whole number of at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.noise is not None and self.greedy:
            raise ValueError("shared noise would do nothing at temperature 0")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def deterministic(self) -> bool:
        """Every row of probabilities is one-hot: one choice, and nothing to draw."""
        return self.greedy or self.noise is not None


GREEDY = Sampling(temperature=0)
UNCHANGED = Sampling()  # the model's own distribution


def to_probs(logits: Tensor, sampling: Sampling, position: int | None = None) -> Tensor:
    """The distribution each row of logits stands for: (..., n_vocab) -> (..., n_vocab), float32 or wider.

    The only place where logits become probabilities. Temperature first, then top-k, then top-p (Holtzman et al. 2020),
    each renormalised; of equally likely tokens the lower ids are kept. Greedy gives one-hot rows at the first maximum.
    With shared noise they are one-hot too, and `position` is the place in the text of the token behind the first row.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.greedy:
        return one_hot(logits.argmax(-1, keepdim=True), logits)
    logits = logits - logits.amax(-1, keepdim=True)  # the best token is now at 0, which no temperature can overflow
    limits = torch.finfo(logits.dtype)
    temperature = min(max(sampling.temperature, limits.tiny), limits.max)  # a double can be 0 or inf in a float
    probs = (logits / temperature).softmax(-1)
    if sampling.top_k is not None:
        probs = keep_top_k(probs, sampling.top_k)
    if sampling.top_p is not None and sampling.top_p < 1:
        probs = keep_top_p(probs, sampling.top_p)
    return probs if sampling.noise is None else sampling.noise.decide(probs, position)


def one_hot(token: Tensor, like: Tensor) -> Tensor:
    """Rows that are 1 at `token` (..., 1) and 0 elsewhere, of the shape and dtype of `like`. (..., n_vocab)"""
    return torch.zeros_like(like).scatter_(-1, token, 1.0)


def keep_top_k(probs: Tensor, k: int) -> Tensor:
    """Exactly the k most likely tokens of each row, renormalised. (..., n_vocab) -> (..., n_vocab)"""
    k = min(k, probs.shape[-1])
    smallest_kept = probs.topk(k, dim=-1).values[..., -1:]
    return keep_largest(probs, smallest_kept, k)


def keep_top_p(probs: Tensor, p: float) -> Tensor:
    """The fewest most likely tokens of each row whose mass reaches p, renormalised. (..., n_vocab) -> (..., n_vocab)"""
    ordered, mass = most_likely(probs, p)
    k = ((mass < p).sum(-1, keepdim=True) + 1).clamp(max=probs.shape[-1])  # (..., 1)
    return keep_largest(probs, ordered.gather(-1, k - 1), k)


def most_likely(probs: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """The largest probabilities of each row in falling order, as many as their mass needs to reach p; and that mass, summed up.

    Sorting 50,257 numbers on a CPU takes 30 times as long as finding the largest 256, which are mostly enough. On a GPU
    sorting is fast, and it is the question whether they are enough that would cost: an answer has to be waited for.
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
    """The k largest entries of each row, given the k-th largest value (..., 1); ties at that value go to the lower ids."""
    above = probs > smallest_kept
    tied = probs == smallest_kept
    room = k - above.sum(-1, keepdim=True)
    kept = torch.where(above | (tied & (tied.cumsum(-1) <= room)), probs, 0)
    return kept / kept.sum(-1, keepdim=True)


def choose(probs: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """The next token of each row: a draw, or the only choice there is, which needs no randomness. (..., n_vocab) -> (...)"""
    return probs.argmax(-1) if sampling.deterministic else draw(probs, generator)


def draw(probs: Tensor, generator: torch.Generator) -> Tensor:
    """One token per row, drawn by inverting the cumulative distribution. (..., n_vocab) -> (...)

    The uniform is scaled by the row's own total and kept below it, and the first token whose cumulative value is above it
    is taken: a token of probability 0 adds nothing to the sum, so it is never drawn.
    """
    cumulative = probs.cumsum(-1, dtype=widest(probs.device))
    total = cumulative[..., -1:]
    x = uniform(total.shape, generator, probs.device) * total
    x = torch.minimum(x, torch.nextafter(total, torch.zeros_like(total)))  # the product may round up to the total
    return torch.searchsorted(cumulative, x, right=True).squeeze(-1)


def uniform(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Independent uniforms from [0, 1) on `device`; the generator may live on another one."""
    return send(torch.rand(shape, generator=generator, device=generator.device, dtype=widest(device)), device)


def send(x: Tensor, device: torch.device) -> Tensor:
    """x on `device`. On CUDA without waiting for what is still at work there: x is copied aside before this returns."""
    return x.to(device, non_blocking=device.type == "cuda")


def widest(device: torch.device) -> torch.dtype:
    """float64, in which rounding cannot be seen; float32 on Apple's MPS, which has nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


def new_generator() -> torch.Generator:
    """A generator seeded from the system; the global random state is left alone."""
    generator = torch.Generator()
    generator.seed()
    return generator
