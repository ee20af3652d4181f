"""What can be followed of a number that is not known, and what is said of the rest."""
import operator
from collections.abc import Callable
from typing import Any

Test = Callable[[Any, Any], bool]  # a comparison: operator.lt, le, gt or ge


class CannotFollow(TypeError):
    """Says in one sentence what was done with u that cannot be followed, and what to do instead."""


def cannot(what: str) -> CannotFollow:
    return CannotFollow("the check follows every value that u can have, so it cannot say what "
                        f"{what} is: compare u itself with a number, as in u < p / q")


def refuse(what: str) -> Callable:
    """Return a method that says that it cannot be followed."""
    def method(*_: Any, **__: Any) -> Any:
        raise cannot(what)
    return method


TURNED: dict[Test, Test] = {operator.lt: operator.gt, operator.le: operator.ge,
                            operator.gt: operator.lt, operator.ge: operator.le}
OF_TENSORS = {"shape", "ndim", "dim", "size", "numel", "dtype", "device"}
SAME_NUMBERS = {"to", "double", "float", "cpu", "clone", "detach", "contiguous"}
RESHAPES = {"reshape", "view", "flatten", "squeeze", "unsqueeze", "expand"}
# PyTorch's name of an operation: the method of a u on its left side, and of one on its right side
OPERATIONS = {
    "lt": ("__lt__", "__gt__"), "less": ("__lt__", "__gt__"),
    "le": ("__le__", "__ge__"), "less_equal": ("__le__", "__ge__"),
    "gt": ("__gt__", "__lt__"), "greater": ("__gt__", "__lt__"),
    "ge": ("__ge__", "__le__"), "greater_equal": ("__ge__", "__le__"),
    "mul": ("__mul__", "__mul__"), "add": ("__add__", "__add__"), "sub": ("__sub__", "__rsub__"),
    "rsub": ("__rsub__", "__sub__"), "div": ("__truediv__", "__rtruediv__"),
    "truediv": ("__truediv__", "__rtruediv__"),
}
REFUSED = {"__bool__": "u alone", "__float__": "float(u)", "__int__": "int(u)", "__index__": "x[u]",
           "__eq__": "u == x", "__ne__": "u != x", "__abs__": "abs(u)", "__pow__": "u ** x",
           "__rtruediv__": "x / u", "__floordiv__": "u // x", "__mod__": "u % x",
           "__round__": "round(u)", "__array__": "an array of u"}
