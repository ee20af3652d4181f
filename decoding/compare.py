"""Are two greedy texts the same, and where they part, was it a near-tie or a mistake?

The plain loop reads one token at a time, the speculative loop reads blocks, and the two are rounded
differently. So they may disagree where two tokens are almost equally likely, and from there on
write different texts. But each token of the speculative text must still be what the plain loop
would choose after the same text, up to that rounding. How much that is, is measured.
"""
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Tensor

from decoding.coupling import Coupled
from decoding.feed import Model, feed, prefill
from decoding.gamma import DEFAULT_GAMMA


@dataclass(frozen=True)
class Difference:
    """A token that is not the plain loop's, and how close the two tokens were."""

    index: int  # among the new tokens
    baseline: int | None  # what the plain loop chooses there; None where its text has ended
    speculative: int | None  # what was written; None where that text has ended
    gap: float | None  # how much more the plain loop's logits give to its own choice
    limit: float | None  # the largest gap that rounding explains

    @property
    def verdict(self) -> str:
        near = self.gap is not None and self.limit is not None and self.gap <= self.limit
        return "near-tie" if near else "DIFFERENT"


def first_difference(model: Model, prompt: list[int], baseline: list[int], speculative: list[int],
                     block: int = DEFAULT_GAMMA + 1) -> Difference | None:
    """Return None if the new ids are the same, else the token that tells most about them.

    From where the texts part, the whole speculative text is checked against the plain loop's
    logits, computed anew, after the same text. The first token that rounding does not explain is
    returned; if it explains all of them, the near-tie where the texts part.

    model: the target, with its cache; it may be a Coupled one.
    block: how many tokens the speculative loop reads at once: gamma + 1, without a cache all.
    """
    parted = next((i for i, (expected, found) in enumerate(zip_longest(baseline, speculative))
                   if expected != found), None)
    if parted is None:
        return None
    if parted in (len(baseline), len(speculative)):
        expected, found = (text[parted] if parted < len(text) else None
                           for text in (baseline, speculative))
        return Difference(parted, expected, found, None, None)
    rivals = {parted: baseline[parted]}
    limit, gaps, choices = audit(model, prompt, speculative, block, rivals)
    index = next((i for i in range(parted, len(gaps)) if gaps[i] > limit), parted)
    gap = gaps[index] if math.isfinite(gaps[index]) else None
    return Difference(index, rivals.get(index, choices[index]), speculative[index], gap, limit)


@torch.no_grad()
def audit(model: Model, prompt: list[int], text: list[int], block: int,
          rivals: dict[int, int]) -> tuple[float, list[float], list[int]]:
    """Return the largest gap that rounding explains, and the gap and best token at each position.

    A gap is how much the plain loop's logits, computed anew after the same text, prefer their best
    token to the text's own, or to the rival if that is further off. With shared noise log p + noise
    stands for the logits.

    Reading in blocks moves both logits of a gap, each by no more than it was measured to move any
    logit along this text: twice that is what rounding explains. But more than 16 eps(dtype) of the
    largest logit is no rounding: blocks are then read wrong. A token that top-k or top-p cuts off
    has no score; rounding explains it if it is the best once every logit moves in its favour.

    rivals: {position: the other loop's token}.
    """
    noisy = model if isinstance(model, Coupled) else None
    moved = largest = 0.0
    gaps, choices = list[float](), list[int]()
    cut: dict[int, Tensor] = {}  # the logits where the text's own token is cut off
    for i, rows in enumerate(read_both_ways(noisy.model if noisy else model, prompt, text, block)):
        eps = torch.finfo(rows[0].dtype).eps
        alone, in_block = (row.to(torch.promote_types(row.dtype, torch.float32)) for row in rows)
        moved = max(moved, highest((alone - in_block).abs()))
        largest = max(largest, highest(alone.abs()))
        scores = noisy.add_noise(alone[None], [len(prompt) + i])[0] if noisy else alone
        own, rival = (scores.max() - scores[[text[i], rivals.get(i, text[i])]]).tolist()
        gaps.append(max(own, rival))
        choices.append(int(scores.argmax()))
        if math.isinf(own) and (i not in rivals or math.isfinite(rival)):
            cut[i] = alone
    limit = min(2 * moved, 16 * eps * largest)
    if noisy is None:
        return limit, gaps, choices
    for i, alone in cut.items():
        favoured = torch.where(alone >= alone[text[i]], alone - limit / 2, alone + limit / 2)
        favoured[text[i]] += limit  # by half of it, too: the line above lowered this one
        if noisy.add_noise(favoured[None], [len(prompt) + i]).argmax() == text[i]:
            gaps[i] = limit / noisy.sampling.temperature
    return limit / noisy.sampling.temperature, gaps, choices


def highest(values: Tensor) -> float:
    """Return the largest finite value; a model may give -inf to tokens that must not follow."""
    return values[values.isfinite()].max().item()


def read_both_ways(model: Model, prompt: list[int], text: list[int],
                   block: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the logits for each token of the text, (n_vocab,): read alone, and in a block.

    Everything before it is read the same way, with the cache of the one loop and of the other.
    """
    capacity = len(prompt) + len(text) - 1  # the last token is not read
    one, many = model.new_cache(capacity), model.new_cache(capacity)
    for cache in (one, many):
        prefill(model, cache, prompt)
    for start in range(0, len(text), block):
        end = min(start + block, len(text))
        rows = feed(model, many, prompt + text[: end - 1], last=end - start)
        for i in range(start, end):
            yield feed(model, one, prompt + text[:i])[0], rows[i - start]


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
    rest = "; the text after it is the plain loop's choice, too"
    return (f"ids identical: no, difference at new token {difference.index}: "
            f"{expected} (baseline), {found} (speculative){gap}: {difference.verdict}"
            + rest * (difference.verdict == "near-tie"))
