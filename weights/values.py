"""What a config.json says, read key by key; what cannot be used is refused, with the key's name."""
import math
from pathlib import Path
from typing import Any

from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.files import parse_json, reading

MOST = 10**7  # of anything: the product of two sizes is still a size that PyTorch can count


class Values:
    """The keys and values of one JSON object in a file. A missing key means its usual value."""

    def __init__(self, path: Path, values: dict) -> None:
        self.path, self.values = path, values

    def refusal(self, reason: str) -> WeightsError:
        return WeightsError(f"{self.path}: {reason}")

    def has(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, usual: Any = None) -> Any:
        return self.values.get(key, usual)

    def must(self, key: str, *allowed: object) -> None:
        """Refuse all other values; a missing key means the first, as in the reference.

        A file that says something else would load well, and compute something wrong.
        """
        value = self.values.get(key, allowed[0])
        if value not in allowed:
            raise self.refusal(f"{key} is {value!r}, but what can be loaded has "
                               + " or ".join(map(repr, allowed)))

    def flag(self, key: str, usual: bool) -> bool:
        """Return true or false."""
        value = self.values.get(key, usual)
        if type(value) is not bool:
            raise self.refusal(f"{key} must be true or false, not {value!r}")
        return value

    def size(self, key: str, usual: int | None = None) -> int:
        """Return a whole number from 1 to MOST; where there is none, or null, the usual one."""
        value = self.values.get(key)
        if value is None and usual is not None:
            return usual
        if type(value) is not int or not 1 <= value <= MOST:
            raise self.refusal(f"{key} must be a whole number from 1 to {MOST}, not {value!r}")
        return value

    def real(self, key: str, usual: float | None = None) -> float:
        """Return a number above 0; where there is none, the usual one."""
        value: Any = self.values.get(key, usual)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self.refusal(f"{key} must be a number above 0, not {value!r}")
        return float(value)

    def part(self, *keys: str) -> "Values":
        """Return what the objects under these keys say together; a later one overrules."""
        together: dict = {}
        for key in keys:
            value = self.values.get(key)
            if not isinstance(value, dict | None):
                raise self.refusal(f"{key} must be a JSON object or null, not {value!r}")
            together |= value or {}
        return Values(self.path, together)


def read_values(path: Path) -> Values:
    """Read a config.json. Raises WeightsError if there is no such file, or it is no JSON object."""
    with reading(path):
        try:
            contents = path.read_bytes()
        except FileNotFoundError:
            raise WeightsError(f"{path.parent} has no config.json; "
                               "it must stand beside model.safetensors") from None
    try:
        values = parse_json(contents)
    except ValueError as error:
        raise WeightsError(f"{path} is not JSON ({error}); {fetch_again(path)}") from error
    if not isinstance(values, dict):
        raise WeightsError(f"{path} is not a JSON object; {fetch_again(path)}")
    return Values(path, values)
