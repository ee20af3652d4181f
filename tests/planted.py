"""Mistakes planted in the speculative loop, for the audit of greedy texts to find."""
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch

from decoding import feed, speculative
from decoding.acceptance import Acceptance, accept_greedy
from model.kv_cache import KVCache


def accept_all(drafted, q, p, generator):
    n = torch.tensor([len(drafted)])
    return Acceptance(n, p[n].argmax(-1))


def accept_one_too_many(drafted, q, p, generator):
    n = (accept_greedy(drafted, q, p, generator).n + 1).clamp(max=len(drafted))
    return Acceptance(n, p[n].argmax(-1))


def take_the_last_argmax(drafted, q, p, generator):
    return Acceptance(accept_greedy(drafted, q, p, generator).n, p[-1:].argmax(-1))


def take_the_argmax_before(drafted, q, p, generator):
    n = accept_greedy(drafted, q, p, generator).n
    return Acceptance(n, p[(n - 1).clamp(min=0)].argmax(-1))


def write_a_wrong_token():
    """Once or twice in a text, the fifth best token."""
    def feed_spoilt(model, cache, tokens, drafted=feed.NOTHING, last=1):
        logits = feed.feed(model, cache, tokens, drafted, last)
        if 20 <= len(tokens) < 25:  # 25 are 20 and a whole round
            logits[0, logits[0].topk(4).indices] = -30
        return logits

    return patch.object(speculative, "feed", feed_spoilt)


def rewind_too_little():
    def rewind(cache, length):
        return feed.rewind(cache, length + 1)

    return patch.object(speculative, "rewind", rewind)


def keep_a_stale_row():
    """The keys and values of the last token stay those of the token that was rejected there."""
    right = KVCache.store

    def store(self, layer, kv):
        start, n = self.length, kv.shape[3]
        if n == 1 or start < 20:  # the prefill is right
            return right(self, layer, kv)
        stale = self.layers[layer][:, :, :, start].clone()
        stored = right(self, layer, kv)
        stored[:, :, :, start] = stale
        return stored

    return patch.object(KVCache, "store", store)


def skip_the_bonus():
    right = speculative.settle

    def settle(numbers, request, tokens):
        ids, kept, extra, kind = right(numbers, request, tokens)
        return ids, kept, ids[-1] if kind == "bonus" and ids else extra, kind

    return patch.object(speculative, "settle", settle)


def follow(rule):
    return lambda: patch.multiple(speculative, accept_greedy=rule)


# Each makes a context in which the loop does it.
MISTAKES: dict[str, Callable[[], AbstractContextManager]] = {
    "accept all": follow(accept_all), "accept one too many": follow(accept_one_too_many),
    "last argmax": follow(take_the_last_argmax), "argmax before": follow(take_the_argmax_before),
    "a wrong token": write_a_wrong_token, "stale row": keep_a_stale_row, "no bonus": skip_the_bonus}
