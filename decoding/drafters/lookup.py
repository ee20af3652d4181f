"""A drafter without a model: it copies what followed the last time the text ended like this."""
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from decoding.random import Generator
from decoding.sampling import Sampling


class LookupDrafter:
    """Proposes what followed the last time the text ended like this: good where it repeats itself.

    Prompt lookup decoding (Saxena 2023). The last n tokens are looked for in the text before them.
    The latest match wins; if there is none, a shorter ending is tried. The proposal involves no
    chance, so q is one-hot. It costs almost nothing.

    n: the longest ending that is looked for.
    """

    n_ctx = math.inf

    def __init__(self, n_vocab: int, n: int = 3) -> None:
        self.n_vocab, self.n = n_vocab, n

    def start(self, prompt: list[int], capacity: int) -> None:
        pass

    def propose(self, tokens: list[int], k: int, sampling: Sampling,
                generator: Generator) -> tuple[Tensor, Tensor]:
        """Return at most k ids (k,), and one-hot rows q (k, n_vocab)."""
        found = torch.tensor(continuation(tokens, self.n, k), dtype=torch.long)
        return found, F.one_hot(found, self.n_vocab).float()

    def rewind(self, length: int) -> None:
        pass


def continuation(tokens: list[int], n: int, k: int) -> list[int]:
    """Copy k tokens from after the latest earlier occurrence of the last n tokens, or of fewer.

    Returns [] if there is none. A copy that reaches the end of the text goes on with what it has
    copied, so that a loop is continued as a loop.
    """
    for length in range(n, 0, -1):
        ending = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == ending:
                followed = tokens[start + length :]
                return [followed[i % len(followed)] for i in range(k)]
    return []
