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
        self.n_ctx, self.n_vocab = model.config.n_ctx, model.config.n_vocab

    def start(self, prompt: list[int], capacity: int) -> None:
        self.cache = self.model.new_cache(min(capacity, self.n_ctx))
        if len(prompt) <= self.n_ctx:  # after a longer prompt the draft is never asked
            prefill(self.model, self.cache, prompt)

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw k ids (k,) from the rows q (k, n_vocab), all on the model's device.

        The first step reads what the draft has not read yet. That is the last token of the text,
        and after full acceptance also the one before it: the draft wrote it as the last of its k
        tokens, and the last one is never fed.
        """
        drafted, q = NOTHING, []
        for _ in range(k):
            q.append(to_probs(feed(self.model, self.cache, tokens, drafted), sampling))
            token = choose(q[-1], sampling, generator)
            drafted = torch.cat([drafted.to(token.device), token])
        return drafted, torch.cat(q)

    def rewind(self, length: int) -> tuple[int, int]:
        return rewind(self.cache, length)
