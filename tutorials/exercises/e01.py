"""Checks of notebook 1.

The truth is counted in the real loop and the real cache, found by experiment, or a formula.
"""
import torch

from decoding import autoregressive
from decoding.feed import Uncached
from decoding.proof.toys import HashModel, Spy, random_prompt, tiny_pair
from decoding.sampling import GREEDY, to_probs
from model import KVCache
from tutorials.drawing import looks_at
from tutorials.grading import Mistake, check, fresh

WRITES, CACHE, MASK = "1 The plain loop", "1 The key/value cache", "1 What attention looks at"


def check_next_token(answer, seed=None) -> str:
    logits = [torch.tensor([[0.0, 9.0, 1.0, 2.0], [3.0, 1.0, 0.0, 2.0]]),
              torch.tensor([[0.0, 1.0, 5.0]]),
              torch.tensor([[-5.0, -1.0], [7.0, -2.0], [-3.0, -1.0]])]
    near = torch.arange(50) * 7 % 50 * 1e-3  # hardly any draw is the largest of these
    logits += [torch.stack([near, near.roll(shift)]) for shift in (3, 20, 41)]

    def truth(rows):
        return to_probs(rows[-1], GREEDY).argmax().item()

    def more(rng):
        return torch.tensor([[rng.gauss(0, 3) for _ in range(5)] for _ in range(3)]),

    known = [Mistake(lambda rows: rows.argmax().item(), "the largest of all numbers is taken, row "
                     "after row, in place of the last row's", WRITES),
             Mistake(lambda rows: rows.argmax().item() % rows.shape[1], "the largest of all rows "
                     "is taken: only the last row answers what comes next", WRITES),
             Mistake(lambda rows: rows[0].argmax().item(), "the first row is asked, which answers "
                     "what comes after the first token", WRITES),
             Mistake(lambda rows: rows[-1].max().item(), "the largest logit is returned, and not "
                     "its index, which is the id", WRITES),
             Mistake(lambda rows: rows.argmax(-1), "every row is asked: only the last answers what "
                     "comes next", WRITES)]
    return check(answer, truth, [(rows,) for rows in logits] + fresh(seed, more), known=known)


def check_tokens_read(answer, seed=None) -> str:
    def truth(L, N, cached):
        spy = Spy(HashModel(1, n_ctx=200))
        autoregressive(spy if cached else Uncached(spy), [0] * L, N)
        return sum(len(new) for _, new in spy.reads)

    sizes = (10, 100), (1, 1), (5, 3)
    cases = [(L, N, cached) for L, N in sizes for cached in (False, True)]
    cases += fresh(seed, lambda rng: (rng.randint(1, 30), rng.randint(1, 90), rng.random() < 0.5))
    known = [
        Mistake(lambda L, N, cached: N if cached else sum(range(L, L + N)),
                "the prompt is not counted: it has to be read once, too", CACHE),
        Mistake(lambda L, N, cached: L + N if cached else sum(range(L, L + N)),
                "the last token written is read: nothing comes after it", CACHE),
        Mistake(lambda L, N, cached: L + N if cached else sum(range(L, L + N + 1)),
                "the last token written is read: nothing comes after it", CACHE),
        Mistake(lambda L, N, cached: L + N - 1 if cached else N * (L + N),
                "each pass without a cache reads the finished text: it reads the text so far",
                CACHE)]
    return check(answer, truth, cases, known=known)


def check_cache_bytes(answer, seed=None) -> str:
    def truth(n_layer, n_embd, length, size):
        dtype = {2: torch.float16, 4: torch.float32}[size]
        cache = KVCache(n_layer, n_head=1, d_head=n_embd, capacity=length, dtype=dtype)
        return cache.keys.nbytes + cache.values.nbytes

    cases = [(12, 256, 100, 4), (2, 256, 100, 2), (12, 768, 1024, 2)]
    cases += fresh(seed, lambda rng: (rng.randint(1, 40), 64 * rng.randint(1, 20),
                                      rng.randint(1, 999), rng.choice([2, 4])))
    known = [
        Mistake(lambda n_layer, n_embd, length, size: n_layer * n_embd * length * size,
                "the factor 2 is missing: there are keys and values", CACHE),
        Mistake(lambda n_layer, n_embd, length, size: 2 * n_embd * length * size,
                "one layer is counted: each has keys and values of its own", CACHE),
        Mistake(lambda n_layer, n_embd, length, size: 2 * n_layer * n_embd * length,
                "numbers are counted, and not their bytes", CACHE)]
    return check(answer, truth, cases, known=known)


def check_visible(answer, seed=None) -> str:
    model, _ = tiny_pair()

    def truth(start, T):
        return looks_at(model, random_prompt(start + T), start)

    def ones(start, T):
        return torch.ones(T, start + T, dtype=torch.bool)

    cases = [(3, 2), (1, 4), (6, 4), (0, 3), (5, 1)]
    cases += fresh(seed, lambda rng: (rng.randint(0, 8), rng.randint(1, 6)))
    known = [Mistake(lambda start, T: ones(start, T).tril(), "the triangle begins in the upper "
                     "left corner: the cached tokens in front of it can all be seen", CACHE),
             Mistake(lambda start, T: ones(start, T).tril(start - 1), "a token cannot see itself",
                     MASK),
             Mistake(ones, "every token sees those that come after it", MASK),
             Mistake(lambda start, T: ~ones(start, T).tril(start), "True and False are exchanged: "
                     "True means that a token may look", MASK)]
    return check(answer, truth, cases, known=known)
