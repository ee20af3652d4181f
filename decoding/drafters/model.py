"""A small model as the drafter: the draft model of the papers."""
import torch
from torch import Tensor

from decoding.feed import NOTHING, Cache, Model, feed, prefill, rewind
from decoding.random import Generator
from decoding.sampling import Sampling, choose, to_probs


class ModelDrafter:
    """Writes k tokens one after the other, as the plain loop would."""

    cache: Cache

    def __init__(self, model: Model) -> None:
        self.model = model
        self.n_ctx = model.config.n_ctx

    def start(self, prompt: list[int], capacity: int) -> None:
        self.cache = self.model.new_cache(min(capacity, self.n_ctx))
        if len(prompt) <= self.n_ctx:  # no draft is ever asked for after a longer one
            prefill(self.model, self.cache, prompt)

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw k ids (k,) from the rows q (k, n_vocab), all on the model's device.

        The first step also reads what was settled since the last call: one token, or two after full
        acceptance, when the last drafted token was kept but never fed. The token drafted last is
        not fed at all.
        """
        drafted, q = NOTHING, []
        for _ in range(k):
            q.append(to_probs(feed(self.model, self.cache, tokens, drafted), sampling))
            token = choose(q[-1], sampling, generator)
            drafted = torch.cat([drafted.to(token.device), token])
        return drafted, torch.cat(q)

    def rewind(self, length: int) -> tuple[int, int]:
        return rewind(self.cache, length)
