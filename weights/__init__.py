"""Weights and vocabularies. Names are resolved when first used, so that `import weights` need not import torch."""
from importlib import import_module

HOME = {
    "load_model": "load",
    "load_fast": "fast",
    "load_tokenizer": "tokenizer",
    "vocabulary_difference": "tokenizer",
    "WeightsError": "errors",
    "DownloadError": "errors",
}
__all__ = list(HOME)


def __getattr__(name: str):
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weights.{HOME[name]}"), name)
