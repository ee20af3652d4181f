"""Rotary position embedding (Su et al. 2021): queries and keys are turned by their position.

A head's numbers are taken in pairs, the first with the one half-way on, and each pair is a point in
the plane. It is turned by an angle that grows with the position, each pair at its own pace. What is
left of the positions in the product of a query and a key is how far they are apart.
"""
import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rope:
    """How fast the pairs turn.

    A model that was first trained on short texts has most of them slowed down.
    """

    d_turned: int  # how many of a head's numbers are turned: the first ones; the rest stay
    theta: float
    factor: float = 1.0  # by which pairs are slowed down
    n_before: int | None = None  # the context before; None: all pairs are slowed down alike
    low: float = 1.0  # pairs with fewer turns than this in n_before tokens are slowed down fully
    high: float = 4.0  # those with more are not; those between, in part


def turns(positions: slice | Tensor, rope: Rope, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of every pair's angle, each (T, d_turned / 2) or (B, 1, T, …).

    positions: a slice of length T or a tensor (T,) or (B, T).
    like: a tensor of the dtype and on the device that they will have.
    """
    if isinstance(positions, slice):
        positions = torch.arange(positions.start, positions.stop, device=like.device)
    angles = positions[..., None] * frequencies(rope, like.device)  # (T or B, T, d_turned / 2)
    if positions.dim() == 2:
        angles = angles[:, None]  # the same for all heads
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def frequencies(rope: Rope, device: torch.device) -> Tensor:
    """Return the angle, from one position to the next, of every pair, (d_turned / 2,).

    Computed in each pass, in float32: a stored copy would be rounded with the weights.
    """
    pair = torch.arange(0, rope.d_turned, 2, device=device, dtype=torch.float32)
    frequency = 1 / rope.theta ** (pair / rope.d_turned)
    if rope.n_before is None:
        return frequency / rope.factor
    times_around = rope.n_before * frequency / (2 * math.pi)
    kept = ((times_around - rope.low) / (rope.high - rope.low)).clamp(0, 1)
    return (1 - kept) * frequency / rope.factor + kept * frequency


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x (B, n, T, d_head) with its pairs turned."""
    half = cos.shape[-1]
    a, b, rest = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
