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
        """Forget everything; get ready for a text of up to `capacity` tokens."""

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Return at most k ids that may follow `tokens`, (k,), and the q they were drawn from.

        q: (k, n_vocab), the very rows, since the rule compares them with p.
        tokens: the whole text so far, the prompt included.
        """
        ...

    def rewind(self, length: int) -> tuple[int, int] | None:
        """Forget what was read beyond the first `length` tokens of the text.

        Returns the length of the cache before and after; None for a drafter without one.
        """


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
