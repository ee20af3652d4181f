"""Shared Gumbel noise: speculative sampling that gives, token for token, the plain loop's text.

The argmax of log p + Gumbel noise is a draw from p. Give every position in the text its own row of
noise, and let draft and target look at the same one: each then has one choice there, the two often
agree, and what is emitted is the target's choice whatever the draft was. (Daliri, Musco and Suresh
2024, "Coupling without communication and drafter-invariant speculative decoding", arXiv
2408.07978.)

So sampling with shared noise is greedy decoding of two models whose logits carry the noise:

    noise = SharedNoise(torch.Generator().manual_seed(0))
    target, draft = Coupled(target, sampling, noise), Coupled(draft, sampling, noise)
    speculative_greedy(target, draft, prompt, 100)
"""
from typing import Any

import torch
from torch import Tensor

from decoding.feed import Cache, Model
from decoding.random import uniform
from decoding.sampling import Sampling, to_probs
from model.decoder import Place


class SharedNoise:
    """Gumbel noise that belongs to a position in the text, so every model sees the same there.

    Each position's seed is drawn once, in order, and kept; its row of noise is made from the seed
    whenever it is asked for.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.seeds: list[int] = []

    def row(self, position: int, n_vocab: int, device: torch.device) -> Tensor:
        """Return the noise of one position, (n_vocab,): the same values in every call."""
        while len(self.seeds) <= position:
            seed = torch.randint(2**62, (), generator=self.generator, device=self.generator.device)
            self.seeds.append(int(seed))
        generator = torch.Generator(self.generator.device).manual_seed(self.seeds[position])
        return -(-uniform((n_vocab,), generator, device).log()).log()


class Coupled:
    """A model whose greedy choice is a draw from its distribution, decided by shared noise.

    sampling: temperature, top-k and top-p of that distribution.
    noise: the same object for target and draft.
    Raises ValueError for temperature 0, where noise would do nothing.
    """

    def __init__(self, model: Model, sampling: Sampling, noise: SharedNoise) -> None:
        if sampling.greedy:
            raise ValueError("shared noise would do nothing at temperature 0")
        self.model, self.sampling, self.noise = model, sampling, noise
        self.config = model.config

    def new_cache(self, capacity: int) -> Cache:
        return self.model.new_cache(capacity)

    def forward(self, tokens: Tensor, cache: Any = None, last: int | None = None,
                place: Place | None = None) -> Tensor:
        """Return log p + noise instead of logits, (1, last or T, n_vocab). tokens: (1, T)."""
        start = 0 if cache is None else cache.length
        positions = list(range(start, start + tokens.shape[1]))
        more: dict[str, Any] = {}
        if place is not None:
            positions, more = place.positions.tolist(), {"place": place}
        logits = self.model.forward(tokens, cache, last, **more)[0]  # (last, n_vocab)
        if len(logits) == 0:
            return logits[None]
        # A row is about the token at the next position.
        return self.add_noise(logits, [p + 1 for p in positions[-len(logits):]])[None]

    def add_noise(self, logits: Tensor, positions: list[int]) -> Tensor:
        """Return log p + noise, (n, n_vocab), of logits about the tokens at these n positions."""
        noise = torch.stack([self.noise.row(position, self.config.n_vocab, logits.device)
                             for position in positions])
        return to_probs(logits, self.sampling).log() + noise
