"""A draft whose acceptance is chosen: what acceptance alone does, and a check of the formulas."""
import torch
import torch.nn.functional as F
from torch import Tensor

from decoding.random import Generator, uniform
from decoding.sampling import Sampling


class SyntheticDrafter:
    """Proposes the target's own choice with probability alpha, else another token. Greedy only.

    Each position is independent of the others. It costs nothing, so c = 0. Where its text ends it
    proposes nothing.

    text: the ids of the prompt and of the target's greedy continuation, from `autoregressive`.
    seed: with the same seed it is right at the same positions.
    Raises ValueError for arguments that mean nothing.
    """

    def __init__(self, text: list[int], alpha: float, n_vocab: int, seed: int = 0) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is a probability, not {alpha}")
        if n_vocab < 2:
            raise ValueError(f"with {n_vocab} tokens in the vocabulary there is no wrong one")
        self.text, self.alpha, self.n_vocab, self.seed = list(text), alpha, n_vocab, seed
        self.n_ctx = len(self.text)
        self.chance = torch.Generator()

    def start(self, prompt: list[int], capacity: int) -> None:
        self.chance.manual_seed(self.seed)

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Return at most k ids (k,), and one-hot rows q (k, n_vocab).

        Raises ValueError unless the run is greedy.
        """
        if not sampling.greedy:
            raise ValueError("a synthetic draft knows what the target chooses, not what it will "
                             "draw: greedy runs only")
        right = torch.tensor(self.text[len(tokens) : len(tokens) + k], dtype=torch.long)
        lucky = uniform(right.shape, self.chance, right.device) < self.alpha
        drafted = torch.where(lucky, right, (right + 1) % self.n_vocab)
        return drafted, F.one_hot(drafted, self.n_vocab).float()

    def rewind(self, length: int) -> None:
        pass
