"""Checks of notebook 1. The truth is counted in the real loop and the real cache, found by experiment, or the paper's formula."""
import torch

from decoding import autoregressive
from decoding.sampling import GREEDY, to_probs
from decoding.theory import expected_speedup, expected_tokens_per_round
from model import KVCache
from decoding.proof.toys import HashModel, Spy, random_prompt, tiny_pair
from tutorials.drawing import looks_at
from tutorials.grading import check


def check_next_token(answer) -> str:
    logits = [torch.tensor([[0.0, 9.0, 1.0, 2.0], [3.0, 1.0, 0.0, 2.0]]), torch.tensor([[0.0, 1.0, 5.0]]),
              torch.tensor([[-5.0, -1.0], [7.0, -2.0], [-3.0, -1.0]])]
    return check(answer, lambda rows: to_probs(rows[-1], GREEDY).argmax().item(), [(rows,) for rows in logits])


def check_tokens_read(answer) -> str:
    def truth(L, N, cached):
        spy = Spy(HashModel(1, n_ctx=200))
        autoregressive(spy, [0] * L, N, use_cache=cached)
        return sum(len(new) for _, new in spy.reads)

    return check(answer, truth, [(10, 100, False), (10, 100, True), (1, 1, False), (1, 1, True), (5, 3, False), (5, 3, True)])


def check_cache_bytes(answer) -> str:
    def truth(n_layer, n_embd, length, size):
        dtype = {2: torch.float16, 4: torch.float32}[size]
        cache = KVCache(n_layer, 1, n_embd, length, dtype=dtype)
        return cache.keys.nbytes + cache.values.nbytes

    return check(answer, truth, [(12, 256, 100, 4), (2, 256, 100, 2), (12, 768, 1024, 2)])


def check_visible(answer) -> str:
    model, _ = tiny_pair()
    return check(answer, lambda start, T: looks_at(model, random_prompt(start + T), start), [(3, 2), (1, 4), (6, 4), (0, 3), (5, 1)])


def check_break_even(answer) -> str:
    def truth(gamma, c, v):  # tokens per round, over the speed-up they give, is the cost of a round
        return expected_tokens_per_round(0.5, gamma) / expected_speedup(0.5, gamma, c, v)

    return check(answer, truth, [(4, 0.1, 1.0), (4, 0.1, 1.5), (7, 0.25, 1.2), (0, 0.1, 1.0)])
