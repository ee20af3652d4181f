"""Libraries that decoding/quality/requirements.txt names, imported when first used."""
from importlib import import_module
from types import ModuleType


def library(name: str) -> ModuleType:
    """Import a library that only this program needs. Raises ValueError where it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"{name.partition('.')[0]} is not installed; run "
                         "`pip install -r decoding/quality/requirements.txt`") from error
