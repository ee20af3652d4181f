"""Are two greedy texts the same, and where they part, was it a near-tie or a mistake?

The plain loop reads one token at a time, the speculative loop reads blocks, and the two are rounded
differently. So they may disagree where two tokens are almost equally likely, and from there on
write different texts. A near-tie is told from a mistake by repeating both loops' passes along the
speculative text (`decoding/repeat.py`). Each of its tokens must be the best in the very pass that
it came from, and in the plain loop's no further behind than rounding explains.
"""
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from decoding.coupling import Coupled
from decoding.feed import Model
from decoding.repeat import repeat, repeat_plain
from decoding.result import Generation


@dataclass(frozen=True)
class Difference:
    """A token that is not the plain loop's, and how close the two tokens were."""

    index: int  # among the new tokens
    baseline: int | None  # what the plain loop chooses there; None where its text has ended
    speculative: int | None  # what was written; None where that text has ended
    gap: float | None  # how much more the plain loop's logits give to its own choice
    limit: float | None  # the largest gap that rounding explains; None: a pass, repeated, chooses
    # another token than it did, and rounding explains nothing

    @property
    def verdict(self) -> str:
        near = self.gap is not None and self.limit is not None and self.gap <= self.limit
        return "near-tie" if near else "DIFFERENT"


def first_difference(plain: Model, target: Model, prompt: list[int], baseline: list[int],
                     speculative: Generation, shared: bool = False) -> Difference | None:
    """Return None if the new ids are the same, else the token that tells most about them.

    From where the texts part, every token of the speculative one is checked. The first that
    rounding does not explain is returned; if it explains all of them, the near-tie where they part.

    plain: the target as the plain loop had it; it may be a Coupled one, and then `target` is, too.
    target: as the speculative loop had it.
    shared: other texts were in its passes, so that they cannot be repeated bit for bit.
    """
    text = speculative.tokens
    parted = next((i for i, (expected, found) in enumerate(zip_longest(baseline, text))
                   if expected != found), None)
    if parted is None:
        return None
    if parted in (len(baseline), len(text)):
        expected, found = (ids[parted] if parted < len(ids) else None for ids in (baseline, text))
        return Difference(parted, expected, found, None, None)
    limit, gaps, choices, repeated = audit(plain, target, prompt, speculative,
                                           {parted: baseline[parted]})
    repeated[parted] &= choices[parted] == baseline[parted]
    choices[parted] = baseline[parted]
    differences = [
        Difference(i, choices[i], text[i], gaps[i] if math.isfinite(gaps[i]) else None,
                   limit if repeated[i] or shared else None) for i in range(parted, len(text))]
    return next((one for one in differences if one.verdict == "DIFFERENT"), differences[0])


@torch.no_grad()
def audit(plain: Model, target: Model, prompt: list[int], speculative: Generation,
          others: dict[int, int]) -> tuple[float, list[float], list[int], list[bool]]:
    """Return the largest gap that rounding explains, and what was found for each token of a text.

    That is: how much the plain loop's logits prefer their best token to the text's, that best
    token, and whether the text's is the best in the repeated pass that it came from. With shared
    noise log p + noise stands for the logits.

    others: by index, a token that the best one must not be further ahead of, either.

    Reading in blocks moves both logits of a gap, each by no more than it was measured to move any
    logit along this text: twice that is what rounding explains. But more than 16 eps(dtype) of the
    largest logit is no rounding: blocks are then read wrong. Top-k or top-p may keep a token in one
    reading and cut it off in the other; what moved the logits there then explains that, too.
    """
    noisy = plain if isinstance(plain, Coupled) else None
    text, moved = speculative.tokens, 0.0
    gaps, choices, repeated = list[float](), list[int](), list[bool]()
    alone = repeat_plain(without_noise(plain), prompt, text)  # (T, n_vocab)
    for i, row in enumerate(repeat(without_noise(target), prompt, speculative.rounds)):
        rows = torch.stack([alone[i], row])
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        here = highest((rows[0] - rows[1]).abs())
        moved = max(moved, here)
        scores = noisy.add_noise(rows, [len(prompt) + i] * 2) if noisy else rows
        top, best = scores.max(-1)
        tokens = [text[i], others.get(i, text[i])]
        gaps.append((top[0] - scores[0, tokens].min()).item())
        choices.append(int(best[0]))
        repeated.append(int(best[1]) == text[i])
        if noisy and repeated[i]:  # infinite, if the plain loop's logits cut the token off
            gaps[i] = min(gaps[i], 2 * here / noisy.sampling.temperature)
    limit = min(2 * moved, 16 * torch.finfo(alone.dtype).eps * highest(alone.abs()))
    return limit / (noisy.sampling.temperature if noisy else 1), gaps, choices, repeated


def without_noise(model: Model) -> Model:
    return model.model if isinstance(model, Coupled) else model


def highest(values: Tensor) -> float:
    """Return the largest finite value; a model may give -inf to tokens that must not follow."""
    return values[values.isfinite()].max().item()


def identity_line(difference: Difference | None, show: Callable[[int], str]) -> str:
    """Return one line that says whether greedy decoding gave the same ids twice.

    show: makes a token id readable.
    """
    if difference is None:
        return "ids identical: yes"
    expected, found = ("the end" if token is None else show(token)
                       for token in (difference.baseline, difference.speculative))
    gap = "" if difference.gap is None else f", {how_close(difference.gap, difference.limit)}"
    rest = "; the text after it is the plain loop's choice, too"
    return (f"ids identical: no, difference at new token {difference.index}: "
            f"{expected} (baseline), {found} (speculative){gap}: {difference.verdict}"
            + rest * (difference.verdict == "near-tie"))


def how_close(gap: float, limit: float | None) -> str:
    """Say whether rounding explains a gap."""
    explained = ("but a pass, repeated, chooses another token" if limit is None else
                 f"rounding explains {limit:.2g}")
    return f"logit gap {gap:.2g}, {explained}"
