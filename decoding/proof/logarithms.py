"""The logarithm of a random number, for rules that compare log u with log p - log q."""
from typing import Any

from torch import Tensor

from decoding.proof.uniforms import Test, Uniforms, known, refuse


class Logarithms(Uniforms):
    """log(factor * u + shift), elementwise: below x where factor * u + shift is below exp(x)."""

    def compare(self, other: Any, test: Test) -> Tensor:
        return super().compare(known(other).exp(), test)

    def __add__(self, other: Any) -> Uniforms:
        return super().__mul__(known(other).exp())

    __radd__ = __add__
    __mul__ = __rmul__ = refuse("log(u) * x")
    log = refuse("log(log(u))")
