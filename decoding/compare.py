"""Are two greedy continuations the same, and if not, was it a near-tie or a mistake?"""
import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from decoding.coupling import Coupled
from decoding.feed import Model
from model import Decoder


@dataclass(frozen=True)
class Difference:
    """The first position where two continuations part, and how close the two tokens were."""

    index: int  # among the new tokens
    baseline: int | None  # the two ids; None where one continuation has ended
    speculative: int | None
    gap: float | None  # difference of their logits, scored again in float32
    limit: float | None  # the largest gap that rounding explains

    @property
    def verdict(self) -> str:
        near = self.gap is not None and self.limit is not None and self.gap <= self.limit
        return "near-tie" if near else "DIFFERENT"


def first_difference(model: Model, prompt: list[int], baseline: list[int],
                     speculative: list[int]) -> Difference | None:
    """Return None if the new ids are the same, else where they part first.

    A block of gamma + 1 tokens and a single token are rounded differently, so the two loops may
    disagree where two tokens are almost equally likely. Both candidates are scored again by one
    uncached float32 forward over the common prefix; a gap of at most 16 eps(dtype) max|logit| is a
    near-tie. With shared noise what counts is logit / temperature + noise.

    model: the target, a Decoder or a Coupled one.
    """
    for index, (expected, found) in enumerate(zip_longest(baseline, speculative)):
        if expected == found:
            continue
        if expected is None or found is None:
            return Difference(index, expected, found, None, None)
        scores, limit = score(model, prompt + baseline[:index])
        gap = (scores[expected] - scores[found]).abs().item()
        return Difference(index, expected, found, gap, limit)
    return None


@torch.no_grad()
def score(model: Model, tokens: list[int]) -> tuple[Tensor, float]:
    """Return what the next token is chosen by, (n_vocab,), and the largest gap rounding explains.

    Computed in float32 at least, and without a cache. Raises TypeError for a model that is neither
    a Decoder nor a Coupled one: its dtype is not known.
    """
    if isinstance(model, Coupled):
        scores, limit = score(model.model, tokens)
        temperature = model.sampling.temperature
        noise = model.noise.row(len(tokens), len(scores), scores.device)
        return scores / temperature + noise, limit / temperature
    if not isinstance(model, Decoder):
        raise TypeError(f"a {type(model).__name__} cannot be scored again in float32")
    limit = 16 * torch.finfo(model.dtype).eps
    if model.dtype.itemsize < 4:
        model = copy.deepcopy(model).float()
    scores = model.forward(torch.tensor([tokens]), None, last=1)[0, 0]
    return scores, limit * scores.abs().max().item()


def identity_line(difference: Difference | None, show: Callable[[int], str]) -> str:
    """Return one line that says whether greedy decoding gave the same ids twice.

    show: makes a token id readable.
    """
    if difference is None:
        return "ids identical: yes"
    expected, found = ("the end" if token is None else show(token)
                       for token in (difference.baseline, difference.speculative))
    gap = ("" if difference.gap is None else
           f", logit gap {difference.gap:.2g}, rounding explains {difference.limit:.2g}")
    return (f"ids identical: no, first difference at new token {difference.index}: "
            f"{expected} (baseline), {found} (speculative){gap}: {difference.verdict}")
