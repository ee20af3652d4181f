"""Shared Gumbel noise: speculative sampling that gives, token for token, what plain sampling gives with the same seed.

The argmax of log p + Gumbel noise is a draw from p. Give every place in the text its own row of noise, and let draft and
target look at the same one: each then has one choice there, the two often agree, and what is emitted is the target's
choice whatever the draft was. (Daliri, Musco and Suresh 2024, "Coupling without communication and drafter-invariant
speculative decoding", arXiv 2408.07978.)
"""
import torch
from torch import Tensor

from decoding.sampling import one_hot, uniform


class SharedNoise:
    """Gumbel noise that belongs to places in the text, not to whoever looks at them, nor to how often.

    Each place's seed is drawn once, in order, and kept; its row of noise is made from the seed whenever it is asked for.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.seeds: list[int] = []

    def row(self, position: int, n_vocab: int, device: torch.device) -> Tensor:
        """The noise of one place, (n_vocab,): the same values in every call."""
        while len(self.seeds) <= position:
            self.seeds.append(torch.randint(2**62, (), generator=self.generator, device=self.generator.device).item())
        generator = torch.Generator(self.generator.device).manual_seed(self.seeds[position])
        return -(-uniform((n_vocab,), generator, device).log()).log()

    def decide(self, probs: Tensor, position: int) -> Tensor:
        """One-hot rows at the choice of each row of probs (T, n_vocab), whose places in the text start at `position`."""
        noise = torch.stack([self.row(position + i, probs.shape[-1], probs.device) for i in range(len(probs))])
        return one_hot((probs.log() + noise).argmax(-1, keepdim=True), probs)
