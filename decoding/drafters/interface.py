"""What the loop asks of a drafter, and one that never drafts."""
import math
from typing import Protocol

import torch
from torch import Tensor

from decoding.feed import NOTHING
from decoding.random import Generator
from decoding.sampling import Sampling


class Drafter(Protocol):
    """Anything that proposes tokens.

    n_ctx: the longest text it can continue, in tokens; math.inf if there is no limit.
    """

    @property
    def n_ctx(self) -> float: ...

    def start(self, prompt: list[int], capacity: int) -> None:
        """Forget everything, and get ready for a text of up to `capacity` tokens.

        A drafter that reads may read the prompt now, all but its last token.
        """

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Return at most k ids that may follow `tokens`, (k,), and the q they were drawn from.

        q: (k, n_vocab), the very rows: the rule divides by them. Greedy runs never look at them,
            so a wrong q shows in sampled texts only; one-hot for tokens that were not drawn.
        tokens: the whole text so far, the prompt included.
        """
        ...

    def rewind(self, length: int) -> tuple[int, int] | None:
        """Forget what was read beyond the first `length` tokens of the text.

        Returns the length of the cache before and after; None for a drafter without one.
        """


def propose(drafter: Drafter, tokens: list[int], k: int, n_vocab: int, sampling: Sampling,
            generator: Generator) -> tuple[Tensor, Tensor]:
    """Ask the drafter for k tokens: (k,) ids, or fewer, and their rows q (k, n_vocab).

    With k = 0 it is not asked. Raises ValueError for an answer of another kind.
    """
    if k == 0:
        return NOTHING, torch.empty(0, n_vocab)
    drafted, q = drafter.propose(list(tokens), k, sampling, generator)  # a copy, it may be changed
    if not (isinstance(drafted, Tensor) and drafted.dim() == 1 and drafted.dtype == torch.long):
        raise ValueError("a drafter must propose a tensor of token ids, torch.long, of shape (k,)")
    if len(drafted) > k:
        raise ValueError(f"the drafter proposed {len(drafted)} tokens; at most {k} were asked for")
    if q.shape != (len(drafted), n_vocab):
        raise ValueError(f"the drafter's q has the shape {tuple(q.shape)}; "
                         f"{len(drafted)} tokens need {(len(drafted), n_vocab)}")
    return drafted, q


class Silent:
    """Proposes nothing, ever: speculative decoding with gamma = 0, which is the plain loop."""

    n_ctx = math.inf

    def __init__(self, n_vocab: int) -> None:
        self.n_vocab = n_vocab

    def start(self, prompt: list[int], capacity: int) -> None:
        pass

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        return NOTHING, torch.empty(0, self.n_vocab)

    def rewind(self, length: int) -> None:
        pass
