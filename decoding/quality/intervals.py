"""What a difference of scores is worth: intervals by the bootstrap, and a paired test.

What is drawn anew is whole problems, since the samples of one problem are alike.
"""
from dataclasses import dataclass

import torch

DRAWS = 10_000


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(scores: list[float]) -> Mean:
    """Return the mean of a score over problems, and its percentile bootstrap interval (Efron)."""
    x = torch.tensor(scores, dtype=torch.float64)  # (n,)
    generator = torch.Generator().manual_seed(0)
    low_high = torch.tensor([0.025, 0.975], dtype=torch.float64)
    means = torch.stack([x[torch.randint(len(x), (len(x),), generator=generator)].mean()
                         for _ in range(DRAWS)])
    low, high = means.quantile(low_high).tolist()
    return Mean(x.mean().item(), low, high)


def paired_test(differences: list[float]) -> float:
    """Return the two-sided p-value of a mean difference of 0, by flipping signs (Fisher).

    If both loops write with one distribution, each difference is as likely as its negative.
    """
    x = torch.tensor(differences, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    signs = 1 - 2 * torch.randint(2, (DRAWS, len(x)), generator=generator, dtype=torch.float64)
    extreme = ((signs @ x).abs() >= x.sum().abs() - 1e-12).sum().item()
    return (extreme + 1) / (DRAWS + 1)
