"""Compares two answers, and puts answers into words."""
import math
from typing import Any

import torch
from torch import Tensor


def difference(got: Any, expected: Any) -> float:
    """Return the largest difference between two answers; inf where they are not alike.

    Raises TypeError, in words for the learner, if the answer is not the kind of thing expected.
    """
    if got is None and expected is not None:
        raise TypeError("returns nothing; is a `return` missing?")
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            raise TypeError(f"returns {kind(got)}, not a dictionary")
        if got.keys() != expected.keys():
            return math.inf
        return max((difference(got[key], expected[key]) for key in expected), default=0.0)
    if not is_numeric(expected):
        return 0.0 if same(got, expected) else math.inf
    try:
        numbers = torch.as_tensor(got, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"returns {kind(got)}, not {kind(expected)}") from None
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    if numbers.shape != wanted.shape:
        raise TypeError(f"returns {kind(got)}, not {kind(expected)}")
    gap = torch.where(numbers == wanted, 0, numbers - wanted).abs()  # inf is equal to inf
    return gap.nan_to_num(nan=math.inf).max().item() if gap.numel() else 0.0


def same(got: Any, expected: Any) -> bool:
    """Return whether two answers that are no numbers are equal."""
    equal = got == expected
    return bool(equal) if not isinstance(equal, Tensor) or equal.numel() == 1 else False


def same_number(a: Any, b: Any) -> bool:
    """Return whether two answers differ by rounding at most."""
    try:
        return difference(a, b) < 1e-6
    except TypeError:
        return False


def is_numeric(value: Any) -> bool:
    """Return whether a value is made of numbers, which may differ by rounding.

    True and False are none, nor is text, nor a list of those.
    """
    if isinstance(value, (list, tuple)):
        return all(is_numeric(item) for item in value)
    return isinstance(value, (int, float, Tensor)) and not isinstance(value, bool)


def kind(value: Any) -> str:
    """Return what kind of thing a value is, in words."""
    if not is_numeric(value):
        return f"a value of the type {type(value).__name__}"
    try:
        shape = tuple(torch.as_tensor(value).shape)
    except (ValueError, TypeError, RuntimeError):
        return "a list of unequal parts"
    if isinstance(value, (list, tuple)) and len(shape) == 1:
        return f"a {type(value).__name__} of {shape[0]}"
    return f"a tensor of the shape {shape}" if shape else "a single number"


def describe(value: Any, other: Any = None) -> str:
    """Return a value in one line: short tensors whole, longer ones by shape.

    other: a dictionary to compare with; only the entry that differs most from it is shown.
    """
    if isinstance(value, dict):
        keys = list(value)
        if isinstance(other, dict):
            keys = [max({**value, **other}, key=lambda key: gap(value, other, key))]
        shown = ", ".join(f"{key}: {describe(value[key]) if key in value else 'impossible'}"
                          for key in keys[:4])
        return f"{{{shown}{', ...' if len(value) > len(keys[:4]) else ''}}}"
    if isinstance(value, Tensor):
        short = value.numel() <= 12
        return str(rounded(value.tolist())) if short else kind(value)
    return str(rounded(value)) if is_numeric(value) else repr(value)


def instead(got: Any, expected: Any) -> str:
    """Return in words how two answers differ: strings, or distributions {text: probability}."""
    if not isinstance(expected, dict):
        return f"{got} instead of {expected}"
    text = max({**got, **expected}, key=lambda key: gap(got, expected, key))
    if text not in expected:
        return f"the text {text} came out, which is impossible"
    if text not in got:
        return f"the text {text} cannot come out; its probability is {expected[text]:.3g}"
    found, wanted = (f"{texts[text]:.{3 if gap(got, expected, text) > 1e-3 else 9}g}"
                     for texts in (got, expected))
    return f"the text {text} came out with probability {found} instead of {wanted}"


def gap(a: dict, b: dict, key: Any) -> float:
    """Return how far two dictionaries differ at a key; inf where only one of them has it."""
    try:
        return difference(a[key], b[key]) if key in a and key in b else math.inf
    except TypeError:
        return math.inf


def rounded(value: Any) -> Any:
    """Return a number, or a list of them, with six digits."""
    if isinstance(value, (list, tuple)):
        return type(value)(rounded(item) for item in value)
    return float(f"{value:.6g}") if isinstance(value, float) else value
