"""What is compared with what: arms are ways to decode, and all of them are given the same tasks.

Imports no torch.
"""
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from decoding.shapes import shape

Row = dict[str, Any]  # one measured run, as it stands in rows.jsonl
WAYS = ("token", "block")  # the rules that judge a chain of drafted tokens
CACHES = ("both", "target", "draft", "none")  # which model has a key/value cache


class NotLossless(Exception):
    """A greedy run gave other ids than the plain loop, and rounding does not explain it."""


@dataclass(frozen=True)
class Arm:
    """One way to decode: with which gamma, which caches, and which rule or tree."""

    gamma: int  # 0 is the plain loop; of a tree it is the depth
    cache: str = "both"  # the plain loop has "both" or "none"
    way: str = WAYS[0]  # one of WAYS, or the shape of a tree; of the plain loop it says nothing

    @property
    def is_tree(self) -> bool:
        return self.way not in WAYS

    @property
    def name(self) -> str:
        name = f"gamma {self.gamma}" if self.gamma else "baseline"
        if self.way != WAYS[0]:
            name = f"tree {self.way}" if self.is_tree else f"{name}, {self.way} rule"
        return name if self.cache == "both" else f"{name}, cache {self.cache}"

    def fits(self, temperature: float) -> bool:
        """Return whether this is a way of its own: greedily, the block rule is the token rule."""
        return self.way != "block" or temperature > 0


@dataclass(frozen=True)
class Task:
    """What every arm is given to do."""

    kind: str  # of the prompt
    prompt: tuple[int, ...]
    length: int  # new tokens, unless end-of-text is asked to stop them
    temperature: float

    @property
    def prompt_sha256(self) -> str:
        return hashlib.sha256(repr(self.prompt).encode()).hexdigest()[:16]


def all_arms(gammas: list[int], no_cache_arms: bool, rules: Sequence[str] = WAYS[:1],
             trees: Sequence[str] = ()) -> list[Arm]:
    """Return the plain loop, then each gamma; the same again for each other cache policy.

    Then each gamma by each other rule, and each tree.
    """
    caches = CACHES if no_cache_arms else CACHES[:1]
    plain = [Arm(0, cache) for cache in caches if cache in ("both", "none")]
    chains = [Arm(gamma, cache) for cache, gamma in product(caches, gammas)]
    others = [Arm(gamma, way=rule) for rule in rules if rule != WAYS[0] for gamma in gammas]
    return plain + chains + others + [Arm(shape(tree).depth, way=tree) for tree in trees]


def all_tasks(prompts: dict[str, list[int]], lengths: list[int],
              temperatures: list[float]) -> list[Task]:
    """Return every combination of prompt, length and temperature."""
    return [Task(kind, tuple(ids), length, temperature)
            for temperature, length, (kind, ids) in product(temperatures, lengths, prompts.items())]


SAME_TASK = ("kind", "prompt_sha256", "prompt_tokens", "length", "temperature", "repeat", "cache",
             "settings")


def comparable(row: Row, other: Row) -> bool:
    """Return whether the speeds in two rows may be compared.

    That takes the same prompt, length, temperature, repeat, cache policy and settings (models,
    dtype, device, threads, end-of-text, versions, processor).
    """
    return all(row[name] == other[name] for name in SAME_TASK)


def baseline_of(row: Row, rows: list[Row]) -> Row | None:
    """Return the plain run that a row may be compared with.

    None if there is none, as where only one of two models has a cache.
    """
    return next((other for other in rows if other["gamma"] == 0 and comparable(row, other)), None)
