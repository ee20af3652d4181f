"""Homework: speculative sampling, all of it, in this one function.

Fill it in, here or in a copy, and let the project's own proof judge it:

    python -m tutorials.grade tutorials/homework/speculative.py

The judge runs your function in every way it can go and adds up exact probabilities. So take all
randomness from `draw` and `uniform`, and hand them the generator:

    draw(probs, generator)             one token per row: (rows, n_vocab) -> (rows,)
    uniform((n,), generator, device)   n numbers from [0, 1), to be compared, as in u < p / q

A model is used by these two alone:

    cache = model.new_cache(capacity)          cache.length, and cache.truncate(length) to forget
    logits = model.forward(tokens, cache, last)
        tokens: (1, T) ids that the cache does not hold yet, at least one; the cache then holds them
        logits: (1, last, n_vocab), what comes after each of the last `last` tokens

A pass of the target is expensive, so it must verify a whole draft at once; and neither model may
read again what its cache holds.
"""
import torch

from decoding.random import draw, uniform  # noqa: F401


@torch.no_grad()
def speculative_sampling(target, draft, prompt, max_new_tokens, generator, gamma=4, temperature=1):
    """Return `prompt`, a list of at least one id, and max_new_tokens more, drawn from the target.

    gamma: tokens drafted per round, 0 or more. temperature: above 0, of both models.
    """
    ...  # your code
