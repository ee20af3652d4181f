"""All randomness of decoding: a draw from a distribution, and the uniforms of the acceptance tests.

Both take it from the generator they are given and leave the global random state alone. A generator
is a torch.Generator, or an object with `draw(probs)` and `uniform(shape)` of its own: the proofs in
`decoding.proof` use one that takes every possible outcome in turn.
"""
from typing import Protocol

import torch
from torch import Tensor


class Choices(Protocol):
    """What may stand in for a torch.Generator."""

    def draw(self, probs: Tensor) -> Tensor: ...
    def uniform(self, shape: tuple[int, ...]) -> Tensor: ...


Generator = torch.Generator | Choices


def draw(probs: Tensor, generator: Generator) -> Tensor:
    """Draw one token per row by inverting the cumulative distribution. (..., n_vocab) -> (...)

    The uniform is scaled by the row's own total and kept below it, and the first token whose
    cumulative value is above it is taken. A token of probability 0 adds nothing to the sum, so it
    is never drawn.
    """
    if not isinstance(generator, torch.Generator):
        return generator.draw(probs)
    cumulative = probs.cumsum(-1, dtype=widest(probs.device))
    total = cumulative[..., -1:]
    x = uniform(total.shape, generator, probs.device) * total
    below_total = torch.nextafter(total, torch.zeros_like(total))  # the product may be rounded up
    x = torch.minimum(x, below_total)
    return torch.searchsorted(cumulative, x, right=True).squeeze(-1)


def uniform(shape: tuple[int, ...], generator: Generator, device: torch.device) -> Tensor:
    """Return independent uniforms from [0, 1) on `device`; the generator may live elsewhere."""
    if not isinstance(generator, torch.Generator):
        return generator.uniform(shape)
    numbers = torch.rand(shape, generator=generator, device=generator.device, dtype=widest(device))
    return send(numbers, device)


def send(x: Tensor, device: torch.device) -> Tensor:
    """Copy x to `device`; on CUDA without waiting for the work that is still queued there."""
    return x.to(device, non_blocking=device.type == "cuda")


def widest(device: torch.device) -> torch.dtype:
    """Return float64, in which rounding cannot be seen; on Apple's MPS float32, its widest."""
    return torch.float32 if device.type == "mps" else torch.float64


def new_generator() -> torch.Generator:
    """Return a generator seeded from the system."""
    generator = torch.Generator()
    generator.seed()
    return generator
