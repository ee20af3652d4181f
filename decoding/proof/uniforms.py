"""What a rule gets instead of a tensor of random numbers, when every way it can go is followed."""
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from decoding.proof.followed import (
    OF_TENSORS,
    OPERATIONS,
    REFUSED,
    RESHAPES,
    SAME_NUMBERS,
    TURNED,
    CannotFollow,
    Test,
    cannot,
    refuse,
)
from decoding.proof.uniform import Take, Uniform


class Uniforms:
    """factor * u + shift, elementwise, with numbers u of which only the comparisons are known.

    It can be compared with numbers and tensors, indexed, iterated, reshaped, joined, and combined
    with known numbers by + - * /; its logarithm can be compared. Whatever else is tried raises
    CannotFollow.

    numbers: what is known of each u. which, factor, shift: of each element, all of one shape.
    """

    def __init__(self, numbers: list[Uniform], which: Tensor, factor: Tensor,
                 shift: Tensor) -> None:
        self.numbers, self.which, self.factor, self.shift = numbers, which, factor, shift

    def beside(self, other: Any) -> list[Tensor]:
        """Return which, factor, shift and a known number or tensor, all of one shape."""
        return list(torch.broadcast_tensors(self.which, self.factor, self.shift, known(other)))

    # comparisons

    def compare(self, other: Any, test: Test) -> Tensor:
        """Return a tensor of bools, and know from then on what they say."""
        parts = self.beside(other)
        elements = zip(*(part.reshape(-1).tolist() for part in parts))
        answers = [self.answer(which, factor, shift, number, test)
                   for which, factor, shift, number in elements]
        return torch.tensor(answers, dtype=torch.bool).reshape(parts[0].shape)

    def answer(self, which: int, factor: float, shift: float, other: float, test: Test) -> bool:
        cut = (other - shift) / factor if factor else math.nan
        if math.isnan(cut):
            return test(shift, other)
        if factor < 0:  # dividing by it turned the comparison around
            test = TURNED[test]
        if test in (operator.lt, operator.le):
            return self.numbers[which].below(cut, equal=test is operator.le)
        return not self.numbers[which].below(cut, equal=test is operator.gt)

    def __lt__(self, other: Any) -> Tensor:
        return self.compare(other, operator.lt)

    def __le__(self, other: Any) -> Tensor:
        return self.compare(other, operator.le)

    def __gt__(self, other: Any) -> Tensor:
        return self.compare(other, operator.gt)

    def __ge__(self, other: Any) -> Tensor:
        return self.compare(other, operator.ge)

    # arithmetic with known numbers

    def __mul__(self, other: Any) -> "Uniforms":
        which, factor, shift, by = self.beside(other)
        return type(self)(self.numbers, which, factor * by, shift * by)

    def __add__(self, other: Any) -> "Uniforms":
        which, factor, shift, by = self.beside(other)
        return Uniforms(self.numbers, which, factor, shift + by)

    def __truediv__(self, other: Any) -> "Uniforms":
        return self * (1 / known(other))

    def __sub__(self, other: Any) -> "Uniforms":
        return self + -known(other)

    def __rsub__(self, other: Any) -> "Uniforms":
        return -self + other

    def __neg__(self) -> "Uniforms":
        return self * -1

    __rmul__, __radd__ = __mul__, __add__

    def log(self) -> "Uniforms":
        return Logarithms(self.numbers, self.which, self.factor, self.shift)

    # shapes and parts, as of a tensor

    def part(self, change: Callable[[Tensor], Tensor]) -> "Uniforms":
        """Return what a change of shape makes of it."""
        return type(self)(self.numbers, *map(change, (self.which, self.factor, self.shift)))

    def __getitem__(self, index: Any) -> "Uniforms":
        return self.part(lambda x: x[index])

    def __len__(self) -> int:
        if self.which.dim() == 0:
            raise cannot("len(u)")
        return len(self.which)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def item(self) -> "Uniforms":
        """Return the single number, which stays unknown."""
        return self.part(lambda x: x.reshape(()))

    def tolist(self) -> Any:
        """Return the numbers, which stay unknown, in lists."""
        return [u.tolist() for u in self] if self.which.dim() else self

    def unbind(self) -> tuple["Uniforms", ...]:
        return tuple(self)

    def __getattr__(self, name: str) -> Any:
        if name in OF_TENSORS:
            return getattr(self.factor, name)
        if name in SAME_NUMBERS:
            return lambda *_, **__: self
        if name in RESHAPES:
            return lambda *sizes, **named: self.part(lambda x: getattr(x, name)(*sizes, **named))
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks whether there is such a thing
        raise cannot(f"u.{name}")

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        """Serve what PyTorch is asked to do with a u, as in `torch.lt(u, ratio)`, `ratio > u`."""
        name = function.__name__
        if not args or (name.endswith("_") and not name.startswith("_")):  # r.sub_(u) changes r
            raise cannot(f"{name} of u")
        name, (left, *rest) = name.strip("_"), args
        if name in ("cat", "stack") and all(isinstance(piece, cls) for piece in left):
            return join(function, left, *rest, **(kwargs or {}))
        if name in RESHAPES | {"log"} and isinstance(left, cls):
            return getattr(left, name)(*rest, **(kwargs or {}))
        if name in OPERATIONS and len(rest) == 1 and not kwargs:
            method, mirrored = OPERATIONS[name]
            if isinstance(left, cls):
                return getattr(left, method)(rest[0])
            return getattr(rest[0], mirrored)(left)
        raise cannot(f"{name} of u")


class Logarithms(Uniforms):
    """log(factor * u + shift), elementwise: below x where factor * u + shift is below exp(x).

    For rules that compare log u with log p - log q.
    """

    def compare(self, other: Any, test: Test) -> Tensor:
        return super().compare(known(other).exp(), test)

    def __add__(self, other: Any) -> Uniforms:
        return super().__mul__(known(other).exp())

    __radd__ = __add__
    __mul__ = __rmul__ = refuse("log(u) * x")
    __neg__ = refuse("-log(u)")
    __rsub__ = refuse("x - log(u)")
    log = refuse("log(log(u))")


def new_uniforms(shape: tuple[int, ...], take: Take) -> Uniforms:
    """Return independent numbers from [0, 1)."""
    ones = torch.ones(shape, dtype=torch.float64)
    which = torch.arange(ones.numel()).reshape(ones.shape)
    return Uniforms([Uniform(take) for _ in range(ones.numel())], which, ones, 0 * ones)


def join(function: Callable, pieces: Any, *args: Any, **kwargs: Any) -> Uniforms:
    """Return `torch.cat` or `torch.stack` of several."""
    numbers: list[Uniform] = []
    which = []
    for piece in pieces:
        which.append(piece.which + len(numbers))
        numbers += piece.numbers
    parts = [which, [piece.factor for piece in pieces], [piece.shift for piece in pieces]]
    return type(pieces[0])(numbers, *(function(part, *args, **kwargs) for part in parts))


def known(other: Any) -> Tensor:
    """Return what u is compared or combined with as a tensor; it must not hold a u itself."""
    if isinstance(other, Uniforms):
        raise CannotFollow("the check cannot compare or combine two random numbers: compare each "
                           "with a known number, as in u < p / q")
    return torch.as_tensor(other, dtype=torch.float64)


for _method, _words in REFUSED.items():
    setattr(Uniforms, _method, refuse(_words))
