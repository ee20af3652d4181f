"""Plain and speculative decoding.

Names are resolved when first used, so that `--help` need not import torch.
"""
from importlib import import_module

HOME = {
    "autoregressive": "baseline",
    "autoregressive_rounds": "baseline",
    "speculative_greedy": "speculative",
    "speculative_sampling": "speculative",
    "speculative_rounds": "speculative",
    "Sampling": "sampling",
    "GREEDY": "sampling",
    "Round": "result",
    "Generation": "result",
}
__all__ = list(HOME)


def __getattr__(name: str):
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"decoding.{HOME[name]}"), name)
