"""Are two greedy continuations the same, and if not, was it a near-tie or a mistake?"""
import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest

import torch

from decoding.feed import feed
from decoding.sampling import GREEDY, Sampling
from model import GPT2


@dataclass(frozen=True)
class Difference:
    """The first place where two continuations part, and how far apart the target sees the two candidates there."""

    index: int  # among the new tokens
    baseline: int | None  # the two ids; None where one continuation has ended
    speculative: int | None
    gap: float | None  # difference of their logits, scored again in float32
    limit: float | None  # the largest gap that rounding explains

    @property
    def verdict(self) -> str:
        return "near-tie" if self.gap is not None and self.gap <= self.limit else "DIFFERENT"


def first_difference(model: GPT2, prompt: list[int], baseline: list[int], speculative: list[int],
                     sampling: Sampling = GREEDY) -> Difference | None:
    """None if the new ids are the same, else where they part first.

    A block of gamma + 1 rows and a single row are rounded differently, so the two loops may disagree where two tokens are
    almost equally likely. Both candidates are scored again by one uncached float32 forward over the common prefix; a gap
    of at most 16 eps(dtype) max|logit| is a near-tie. Under shared noise what counts is logit / temperature + noise.
    """
    for index, (ours, theirs) in enumerate(zip_longest(baseline, speculative)):
        if ours == theirs:
            continue
        if ours is None or theirs is None:
            return Difference(index, ours, theirs, None, None)
        tokens = prompt + baseline[:index]
        scores = score(model, tokens)  # (n_vocab,)
        limit = 16 * torch.finfo(model.wpe.weight.dtype).eps * scores.abs().max().item()
        if sampling.noise is not None:
            scores = scores / sampling.temperature + sampling.noise.row(len(tokens), len(scores), scores.device)
            limit /= sampling.temperature
        return Difference(index, ours, theirs, (scores[ours] - scores[theirs]).abs().item(), limit)
    return None


@torch.no_grad()
def score(model: GPT2, tokens: list[int]) -> torch.Tensor:
    """Logits of the token behind `tokens`, computed in float32 at least and without a cache. (n_vocab,)"""
    if model.wpe.weight.dtype.itemsize < 4:
        model = copy.deepcopy(model).float()
    return feed(model, None, tokens)[0]


def identity_line(difference: Difference | None, show: Callable[[int], str]) -> str:
    """Return one line that says whether greedy decoding gave the same ids twice.

    show: makes a token id readable.
    """
    if difference is None:
        return "ids identical: yes"
    ours, theirs = ("the end" if token is None else show(token)
                    for token in (difference.baseline, difference.speculative))
    gap = ("" if difference.gap is None else
           f", logit gap {difference.gap:.2g}, rounding explains {difference.limit:.2g}")
    return (f"ids identical: no, first difference at new token {difference.index}: "
            f"{ours} (baseline), {theirs} (speculative){gap}: {difference.verdict}")
