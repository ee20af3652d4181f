"""Checks of notebook 10. The truth is the project's own layers and masks, or the definition."""
import math
import random

import torch
from torch import Tensor

from model.attention import near_mask
from model.rotary import Rope, frequencies
from tutorials.grading import Mistake, check, fresh

PYTHIA, NEO, LLAMA = (
    "10 Pythia: side by side, turned, head by head",
    "10 GPT-Neo: a window, and scores as they are",
    "10 Llama: shared keys, slowed turning, no mean")


def check_three_blocks(answer, seed=None) -> str:
    def truth(weight, n_head):
        """Take the rows as Pythia's attention takes its numbers."""
        return torch.cat(list(weight.unflatten(0, (n_head, 3, -1)).unbind(1))).flatten(0, 1)

    def swapped(weight, n_head):
        return weight.unflatten(0, (n_head, -1, 3)).permute(2, 0, 1, 3).flatten(0, 2)

    def back(weight, n_head):
        return weight.unflatten(0, (3, n_head, -1)).transpose(0, 1).flatten(0, 2)

    def more(rng):
        n_head, d_head = rng.choice([2, 4]), rng.choice([2, 5])
        return matrix(3 * n_head * d_head, n_head * d_head, rng), n_head

    rng = random.Random(0)
    cases = [(matrix(12, 4, rng), 2), (matrix(18, 6, rng), 2), (matrix(24, 8, rng), 4)]
    known = [Mistake(lambda weight, n_head: weight, "the rows stay where they are: Pythia has them "
                     "head by head", PYTHIA),
             Mistake(back, "the way back is taken, from three blocks to heads", PYTHIA),
             Mistake(swapped, "each head is taken for d_head triples of one row each of q, k and v",
                     PYTHIA)]
    return check(answer, truth, cases + fresh(seed, more), known=known)


def matrix(rows: int, columns: int, rng: random.Random) -> Tensor:
    """Return a random matrix, (rows, columns)."""
    return torch.tensor([[rng.gauss(0, 1) for _ in range(columns)] for _ in range(rows)])


def check_seen_in_the_window(answer, seed=None) -> str:
    def truth(T, window):
        """Ask the mask of the model, for a text without a cache."""
        like = torch.zeros(1)
        causal = like.new_full((T, T), -torch.inf).triu(1)
        mask = near_mask(causal, slice(0, T), window, like)
        assert mask is not None
        return (mask == 0).double()

    def between(first, last):
        def wrong(T, window):
            back = torch.arange(T)[:, None] - torch.arange(T)  # how far i looks back to j
            return ((back >= first) & (back < last(T, window))).double()
        return wrong

    known = [Mistake(between(0, lambda T, window: window + 1), "the token itself is not counted: "
                     "with it one too many is seen", NEO),
             Mistake(between(0, lambda T, window: T), "there is no window", NEO),
             Mistake(between(1, lambda T, window: window + 1), "the token itself is not seen", NEO),
             Mistake(lambda T, window: between(0, lambda T, window: window)(T, window).T,
                     "rows and columns are exchanged: later tokens are seen", NEO)]
    cases = [(5, 2), (6, 3), (4, 1), (7, 4), (3, 8)]
    return check(answer, truth, cases + fresh(seed, lambda rng: (rng.randint(5, 9),
                                                                 rng.randint(1, 4))), known=known)


def check_how_slow(answer, seed=None) -> str:
    def truth(theta, d_head, factor, n_before):
        cpu = torch.device("cpu")
        slowed = frequencies(Rope(d_head, theta, factor, n_before), cpu)
        return (slowed / frequencies(Rope(d_head, theta), cpu)).double()

    def by(share):
        """Return the answer for a share that is kept, a function of the turns in n_before."""
        def wrong(theta, d_head, factor, n_before):
            pairs = torch.arange(0, d_head, 2).double()
            kept = share(n_before / theta ** (pairs / d_head) / (2 * math.pi))
            return kept + (1 - kept) / factor
        return wrong

    def more(rng):
        return (rng.choice([1e4, 5e5]), rng.choice([24, 32, 64]), rng.choice([4.0, 8.0, 32.0]),
                rng.choice([512, 2048, 8192]))

    cases = [(5e5, 16, 32.0, 8192), (5e5, 24, 8.0, 8192), (1e4, 16, 4.0, 512)]
    known = [Mistake(by(torch.zeros_like), "every pair is slowed down alike: that is DeepSeek's "
                     "linear scaling", LLAMA),
             Mistake(by(lambda turns: (turns > 1).double()), "pairs between 1 and 4 turns are kept "
                     "as they are: they are slowed down in part", LLAMA),
             Mistake(by(lambda turns: (turns > 4).double()), "pairs between 1 and 4 turns are "
                     "slowed down fully: only in part", LLAMA),
             Mistake(by(lambda turns: 1 - ((turns - 1) / 3).clamp(0, 1)), "the fast pairs are "
                     "slowed down and the slow ones kept", LLAMA),
             Mistake(by(lambda turns: ((2 * math.pi * turns - 1) / 3).clamp(0, 1)), "2 pi is "
                     "forgotten: a frequency is an angle, not a number of turns", LLAMA)]
    return check(answer, truth, cases + fresh(seed, more), close=1e-4, known=known)
