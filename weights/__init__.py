"""Weights and vocabularies.

Names are resolved when first used, so that `import weights` need not import torch.
"""
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what editors and type checkers see
    from weights.errors import DownloadError, WeightsError
    from weights.fast import load_fast
    from weights.load import load_model
    from weights.tokenizer import load_tokenizer, vocabulary_difference

__all__ = ["DownloadError", "WeightsError", "load_fast", "load_model", "load_tokenizer",
           "vocabulary_difference"]

HOME = {
    "load_model": "load",
    "load_fast": "fast",
    "load_tokenizer": "tokenizer",
    "vocabulary_difference": "tokenizer",
    "WeightsError": "errors",
    "DownloadError": "errors",
}

if not TYPE_CHECKING:  # else every misspelt name would pass as one of any type
    def __getattr__(name: str):
        if name not in HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"weights.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
