"""What proposes tokens. A drafter has

    n_ctx                                     the longest text it can continue
    start(prompt, capacity)                   forget everything; get ready for a text of up to `capacity` tokens
    propose(tokens, k, sampling, generator)   at most k ids that may follow, and the rows q they were drawn from
    rewind(length)                            forget what was read beyond the first `length` tokens of the text
"""
from typing import Protocol

import torch
from torch import Tensor

from decoding.feed import NOTHING, Model, feed, prefill, rewind
from decoding.sampling import Sampling, choose, to_probs


class Drafter(Protocol):
    n_ctx: int

    def start(self, prompt: list[int], capacity: int) -> None: ...
    def propose(self, tokens: list[int], k: int, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]: ...
    def rewind(self, length: int) -> tuple[int, int] | None: ...


class ModelDrafter:
    """A small model, which writes k tokens one after the other as the plain loop would."""

    def __init__(self, model: Model, use_cache: bool = True) -> None:
        self.model = model
        self.use_cache = use_cache
        self.n_ctx = model.config.n_ctx
        self.cache = None

    def start(self, prompt: list[int], capacity: int) -> None:
        self.cache = self.model.new_cache(min(capacity, self.n_ctx)) if self.use_cache else None
        if len(prompt) <= self.n_ctx:  # into a longer one no draft will be asked for
            prefill(self.model, self.cache, prompt)

    def propose(self, tokens: list[int], k: int, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """k ids (k,) and the rows q they were drawn from (k, n_vocab), all on the model's device.

        The first step also reads what was settled since the last call: one token, or two after full acceptance, when the
        last drafted token was kept but never fed. The token drafted last is not fed at all.
        """
        drafted, q = NOTHING, []
        for _ in range(k):
            logits = feed(self.model, self.cache, tokens, drafted)
            q.append(to_probs(logits, sampling))
            token = choose(q[-1], sampling, generator)
            drafted = torch.cat([drafted.to(token.device), token])
        return drafted, torch.cat(q)

    def rewind(self, length: int) -> tuple[int, int] | None:
        return rewind(self.cache, length)
