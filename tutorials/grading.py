"""Grades an exercise: `check` compares a learner's function with the right one.

The grade is "correct", "wrong" or "not answered yet". A wrong answer that is what a known mistake
gives is told which mistake it is; else the first wrong case is shown.
"""
import copy
import dis
import inspect
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoding.proof.uniforms import CannotFollow
from tutorials.comparing import describe, difference, instead, same_number

CORRECT, WRONG, UNANSWERED = "correct", "wrong", "not answered yet"


class Mistake(NamedTuple):
    """A known mistake: what it gives, what it is, and where to read about it."""

    answer: Callable  # takes what the learner's function takes
    words: str  # completes "this is exactly what comes out when ..."
    see: str  # a notebook's number and a heading in it, as in "3 Why not redraw from p?"


def blank():
    ...  # what an exercise looks like before it is answered


def check(mine: Any, truth: Callable, cases: Iterable[tuple], close: float = 1e-6,
          known: Iterable[Mistake] = (), given: Callable = blank, of: Any = None,
          at: Callable[..., str] | None = None, last: Callable[[], str] = str) -> str:
    """Grade `mine` against `truth`: print and return "correct", "wrong" or "not answered yet".

    An answer is a number, a tensor or a list of numbers, a dictionary of those, or anything else
    that == compares.
    cases: the arguments of each call.
    close: the largest difference that rounding may make.
    known: mistakes to compare a wrong answer with.
    given: what the notebook puts in the answer's place.
    of: the learner's own function, where `mine` is made of it.
    at: puts a case into words, where it is no call that a learner would write.
    last: asked when all cases are right: a sentence about what is wrong all the same, or "".
    """
    cases = list(cases)
    if untouched(mine if of is None else of, given):
        return grade(UNANSWERED)
    for case in cases:
        # Copies: an answer that changes its arguments must not change the case.
        expected = truth(*copy.deepcopy(case))
        try:
            got = mine(*copy.deepcopy(case))
        except CannotFollow as error:
            return grade(WRONG, str(error))
        except Exception as error:  # a learner's function may raise anything
            raised = f"{type(error).__name__}: {error}"
            if at:
                return grade(WRONG, f"{at(*case)}: raises {raised}")
            return wrong(mine, case, f"raises   {raised}", expected)
        try:
            if difference(got, expected) <= close:
                continue
            complaint = f"gives    {describe(got, expected)}"
        except TypeError as error:
            complaint, got = str(error), None
        if mistake := find(known, mine, cases):
            return grade(WRONG, sentence(mistake))
        if at:
            complaint = complaint if got is None else instead(got, expected)
            return grade(WRONG, f"{at(*case)}: {complaint}")
        return wrong(mine, case, complaint, expected, got)
    complaint = last()
    return grade(WRONG, complaint) if complaint else grade(CORRECT)


def untouched(mine: Any, given: Callable) -> bool:
    """Return whether a function is still the one the notebook gave."""
    mine, given = inspect.unwrap(mine), inspect.unwrap(given)
    return inspect.isfunction(mine) and instructions(mine) == instructions(given)


def instructions(function: Callable) -> list[tuple]:
    """Return what a function does, whatever its name, comments and lines are.

    How Python calls an attribute depends on where it was imported, so this does not count.
    """
    same = {"LOAD_METHOD": "LOAD_ATTR", "CALL_METHOD": "CALL", "CALL_FUNCTION": "CALL"}
    return [(same.get(step.opname, step.opname), step.argval)
            for step in dis.get_instructions(function)
            if step.opname not in ("RESUME", "CACHE", "NOP", "PUSH_NULL")]


def find(known: Iterable[Mistake], mine: Callable, cases: list[tuple]) -> Mistake | None:
    """Return the known mistake that gives what an answer gives in all cases; None if there is none.

    After each case the mistakes are left that agree so far.
    """
    left = list(known)
    for case in cases:
        if not left:
            return None
        try:
            got = mine(*copy.deepcopy(case))
        except Exception:  # a learner's function may raise anything: then it is no known mistake
            return None
        left = [mistake for mistake in left if gives(mistake, case, got)]
    return left[0] if left else None


def gives(mistake: Mistake, case: tuple, got: Any) -> bool:
    """Return whether a mistake gives the same as an answer did."""
    try:
        return same_number(mistake.answer(*copy.deepcopy(case)), got)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False  # the mistake does not serve this case


def sentence(mistake: Mistake) -> str:
    """Return what a learner is told about a mistake."""
    number, heading = mistake.see.split(" ", 1)
    return (f"this is exactly what comes out when {mistake.words}; "
            f"see notebook {number}, \"{heading}\"")


def fresh(seed: int | None, make: Callable[[random.Random], tuple], count: int = 4) -> list[tuple]:
    """Return a teacher's cases: `count` new ones for each seed, none for None."""
    if seed is None:
        return []
    rng = random.Random(seed)
    return [make(rng) for _ in range(count)]


def die(rng: random.Random, faces: int) -> Tensor:
    """Return a random distribution, (faces,) in float64."""
    weights = torch.tensor([rng.uniform(0.05, 1) for _ in range(faces)], dtype=torch.float64)
    return weights / weights.sum()


def dice(rng: random.Random) -> tuple[Tensor, Tensor]:
    """Return two distributions over the same faces."""
    faces = rng.randint(2, 5)
    return die(rng, faces), die(rng, faces)


def wrong(mine: Callable, case: tuple, complaint: str, expected: Any, got: Any = None) -> str:
    """Print the case that is wrong, what was expected, and a hint; return "wrong"."""
    lines = [call(mine, case), complaint, f"expected {describe(expected, got)}",
             hint(got, expected)]
    return grade(WRONG, "\n  ".join(line for line in lines if line))


def grade(word: str, detail: str = "") -> str:
    """Print the grade, with details if there are any; return it."""
    print(f"{word}: {detail}" if detail else word)
    return word


def hint(got: Any, expected: Any) -> str:
    """Return a hint on a common mistake: distributions made along the wrong axis; else nothing."""
    rows = isinstance(expected, Tensor) and expected.dim() > 0 and sum_to_one(expected)
    if got is None or not rows or sum_to_one(torch.as_tensor(got)):
        return ""
    what = "each row (the last axis)" if expected.dim() > 1 else "it"
    return f"{what} should sum to 1, but does not"


def sum_to_one(rows: Tensor) -> bool:
    """Return whether every row (the last axis) sums to 1."""
    return bool(((rows.double().sum(-1) - 1).abs() < 1e-4).all())


def call(function: Callable, case: tuple) -> str:
    """Return a call as it would be written."""
    name = getattr(function, "__name__", repr(function))
    return f"{name}({', '.join(describe(argument) for argument in case)})"
