"""Grades the exercises: `check` compares a learner's function with the right one.

Its answers are "exact", "close" or "wrong", and where it is wrong it shows the first wrong case.
"""
import copy
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def check(mine: Callable, truth: Callable, cases: Iterable[tuple], close: float = 1e-6) -> str:
    """Grade `mine` against `truth`: print and return "exact", "close" or "wrong".

    An answer is a number, a tensor or a list of numbers, a dictionary of those, or anything else
    that == compares. The first wrong case is shown, and what was expected.
    cases: the arguments of each call.
    close: the largest difference that rounding may make.
    """
    worst = 0.0
    for case in cases:
        # Copies: an answer that changes its arguments must not change the case.
        expected = truth(*copy.deepcopy(case))
        try:
            got = mine(*copy.deepcopy(case))
        except Exception as error:  # a learner's function may raise anything
            complaint = f"raises   {type(error).__name__}: {error}"
            return wrong(mine, case, complaint, expected)
        try:
            worst = max(worst, difference(got, expected))
        except TypeError as error:
            return wrong(mine, case, str(error), expected)
        if not worst <= close:
            return wrong(mine, case, f"gives    {describe(got, expected)}", expected, got)
    if worst == 0:
        return grade("exact")
    return grade("close", f"largest difference {worst:.1g}, which is rounding")


def wrong(mine: Callable, case: tuple, complaint: str, expected, got=None) -> str:
    """Print the case that is wrong, what was expected, and a hint; return "wrong"."""
    lines = [call(mine, case), complaint, f"expected {describe(expected, got)}",
             hint(got, expected)]
    return grade("wrong", "\n  ".join(line for line in lines if line))


def grade(word: str, detail: str = "") -> str:
    """Print the grade, with details if there are any; return it."""
    print(f"{word}: {detail}" if detail else word)
    return word


def difference(got, expected) -> float:
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
        got = torch.as_tensor(got, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"returns {kind(got)}, not {kind(expected)}") from None
    expected = torch.as_tensor(expected, dtype=torch.float64)
    if got.shape != expected.shape:
        raise TypeError(f"returns {kind(got)}, not {kind(expected)}")
    gap = torch.where(got == expected, 0, got - expected).abs()  # inf is equal to inf
    return gap.nan_to_num(nan=math.inf).max().item() if gap.numel() else 0.0


def same(got, expected) -> bool:
    """Return whether two answers that are no numbers are equal."""
    equal = got == expected
    return bool(equal) if not isinstance(equal, Tensor) or equal.numel() == 1 else False


def is_numeric(value) -> bool:
    """Return whether a value is made of numbers, which may differ by rounding.

    True and False are none, nor is text, nor a list of those.
    """
    if isinstance(value, (list, tuple)):
        return all(is_numeric(item) for item in value)
    return isinstance(value, (int, float, Tensor)) and not isinstance(value, bool)


def hint(got, expected) -> str:
    """Return a hint on a common mistake: distributions made along the wrong axis; else nothing."""
    rows = isinstance(expected, Tensor) and expected.dim() > 0 and sum_to_one(expected)
    if got is None or not rows or sum_to_one(torch.as_tensor(got)):
        return ""
    return "each row (the last axis) should sum to 1, but yours do not"


def sum_to_one(rows: Tensor) -> bool:
    """Return whether every row (the last axis) sums to 1."""
    return bool(((rows.double().sum(-1) - 1).abs() < 1e-4).all())


def kind(value) -> str:
    """Return what kind of thing a value is, in words."""
    if not is_numeric(value):
        return f"a value of the type {type(value).__name__}"
    try:
        value = torch.as_tensor(value)
    except (ValueError, TypeError, RuntimeError):
        return "a list of unequal parts"
    return f"a tensor of the shape {tuple(value.shape)}" if value.dim() else "a single number"


def call(function: Callable, case: tuple) -> str:
    """Return a call as it would be written."""
    name = getattr(function, "__name__", repr(function))
    return f"{name}({', '.join(describe(argument) for argument in case)})"


def describe(value, other=None) -> str:
    """Return a value in one line: short tensors whole, longer ones by shape.

    other: a dictionary to compare with; entries that differ from it come first.
    """
    if isinstance(value, dict):
        keys = list(value)
        if isinstance(other, dict):
            keys.sort(key=lambda key: key in other and same_number(value[key], other[key]))
        shown = ", ".join(f"{key}: {describe(value[key])}" for key in keys[:4])
        return f"{{{shown}{', ...' if len(keys) > 4 else ''}}}"
    if isinstance(value, Tensor):
        short = value.numel() <= 12
        return str(rounded(value.tolist())) if short else kind(value)
    return str(rounded(value)) if is_numeric(value) else repr(value)


def same_number(a, b) -> bool:
    """Return whether two answers differ by rounding at most."""
    try:
        return difference(a, b) < 1e-6
    except TypeError:
        return False


def rounded(value):
    """Return a number, or a list of them, with six digits."""
    if isinstance(value, (list, tuple)):
        return type(value)(rounded(item) for item in value)
    return float(f"{value:.6g}") if isinstance(value, float) else value
