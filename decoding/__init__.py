"""Plain and speculative decoding.

Names are resolved when first used, so that `--help` need not import torch.
"""
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what editors and type checkers see
    from decoding.baseline import autoregressive, autoregressive_rounds
    from decoding.batched import autoregressive_batch, batch_rounds, speculative_batch
    from decoding.result import Generation, Round
    from decoding.sampling import GREEDY, Sampling
    from decoding.speculative import (
        speculative_greedy,
        speculative_rounds,
        speculative_sampling,
    )

__all__ = [
    "GREEDY", "Generation", "Round", "Sampling", "autoregressive", "autoregressive_batch",
    "autoregressive_rounds", "batch_rounds", "speculative_batch", "speculative_greedy",
    "speculative_rounds", "speculative_sampling",
]

HOME = {
    "autoregressive": "baseline",
    "autoregressive_rounds": "baseline",
    "speculative_greedy": "speculative",
    "speculative_sampling": "speculative",
    "speculative_rounds": "speculative",
    "autoregressive_batch": "batched",
    "speculative_batch": "batched",
    "batch_rounds": "batched",
    "Sampling": "sampling",
    "GREEDY": "sampling",
    "Round": "result",
    "Generation": "result",
}

if not TYPE_CHECKING:  # else every misspelt name would pass as one of any type
    def __getattr__(name: str):
        if name not in HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"decoding.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
