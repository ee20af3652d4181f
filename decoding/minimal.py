"""Speculative sampling on one page (Leviathan et al. 2023, Algorithm 1).

A small draft model writes `gamma` tokens, one after the other. The target, the model whose text is
wanted, checks all of them in one pass. It keeps some, and adds one token of its own. What comes out
has exactly the target's distribution, whatever the draft is.

    p, q          the distributions of target and draft
    n             how many drafted tokens are accepted
    a key/value cache holds what a model has read; `truncate` makes it forget the rest

`decoding/speculative.py` is the same loop with what an application needs: an end-of-text, contexts
that fill up, greedy decoding, other drafts, numbers about each round, and the rare case in which
rounding leaves nothing of the residual.
"""
import torch

from decoding.random import draw, uniform


@torch.no_grad()
def speculative_sampling(target, draft, prompt, max_new_tokens, generator, gamma=4, temperature=1):
    """Return `prompt`, a list of ids, and max_new_tokens more, drawn from the target.

    temperature: above 0.
    """
    tokens, end = list(prompt), len(prompt) + max_new_tokens
    target_cache, draft_cache = target.new_cache(end), draft.new_cache(end)

    def read(model, cache, last):  # feed what is new to the model -> (last, n_vocab)
        new = torch.tensor([tokens[cache.length:]])
        return (model.forward(new, cache, last)[0] / temperature).softmax(-1)

    while (L := len(tokens)) < end:
        q, n, k = [], 0, min(gamma, end - L - 1)  # the last token is always the target's
        for _ in range(k):                                                    # draft
            q += read(draft, draft_cache, 1)  # one more row
            tokens += draw(q[-1][None], generator).tolist()
        p = read(target, target_cache, k + 1)                                 # verify
        while n < k and uniform((1,), generator, p.device) < (p[n] / q[n])[tokens[L + n]]:
            n += 1                                                            # accept
        rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]  # `draw` divides by its sum
        tokens[L + n:] = draw(rest[None], generator).tolist()                 # correct, or bonus
        for cache in (target_cache, draft_cache):                             # rewind
            cache.truncate(min(cache.length, len(tokens) - 1))
    return tokens
