"""The plain autoregressive loop: one target pass, one token. Everything else is measured against it."""
from collections.abc import Iterator

import torch

from decoding.feed import Model, feed, prefill, rewind
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, Sampling, choose, new_generator, to_probs
from decoding.stopwatch import Stopwatch


def autoregressive(model: Model, prompt: list[int], max_new_tokens: int, *, sampling: Sampling = GREEDY,
                   eos: int | None = None, generator: torch.Generator | None = None, use_cache: bool = True) -> Generation:
    """Continue `prompt`, at least one id, by up to max_new_tokens ids.

    Stops behind an `eos` id, if one is given, and where the context is full: the last id is never fed, so the whole text
    may be one id longer than the context. Raises ValueError for a prompt that is empty or longer than the context.
    """
    rounds = autoregressive_rounds(model, prompt, max_new_tokens, sampling=sampling, eos=eos, generator=generator,
                                   use_cache=use_cache)
    return Generation(list(rounds), gamma=0)


def autoregressive_rounds(model: Model, prompt: list[int], max_new_tokens: int, *, sampling: Sampling = GREEDY,
                          eos: int | None = None, generator: torch.Generator | None = None,
                          use_cache: bool = True) -> Iterator[Round]:
    """The same, one token at a time: each Round is one bonus token, with nothing drafted."""
    check_request(model, prompt, max_new_tokens)
    return _rounds(model, list(prompt), max_new_tokens, sampling, eos, generator or new_generator(), use_cache)


@torch.no_grad()
def _rounds(model, tokens, max_new_tokens, sampling, eos, generator, use_cache):
    if max_new_tokens == 0:
        return
    end = len(tokens) + max_new_tokens
    watch = Stopwatch()
    cache = model.new_cache(min(end, model.config.n_ctx)) if use_cache else None
    prefill(model, cache, tokens)
    prefill_seconds = watch.total() if use_cache else None
    reason = None
    while reason is None:
        watch = Stopwatch()
        p = to_probs(feed(model, cache, tokens), sampling, len(tokens))  # (1, n_vocab)
        token = choose(p, sampling, generator).item()
        tokens.append(token)
        reason = finish_reason(tokens, end, model.config.n_ctx, eos)
        lengths = rewind(cache, len(tokens) - 1)  # nothing to forget here; the speculative loop has something
        yield Round([], 0, token, "bonus", watch.total(), lengths, None, reason, prefill_seconds)
        prefill_seconds = None


def check_request(model: Model, prompt: list[int], max_new_tokens: int) -> None:
    """Raises ValueError for a request that cannot be served: see `autoregressive`."""
    if len(prompt) == 0:
        raise ValueError("the prompt is empty; it needs at least one token id")
    if len(prompt) > model.config.n_ctx:
        raise ValueError(f"the prompt has {len(prompt)} tokens, but the model's context is {model.config.n_ctx}; shorten it")
    if not all(0 <= token < model.config.n_vocab for token in prompt):
        raise ValueError(f"the prompt has ids that are not among the model's {model.config.n_vocab} tokens")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, not {max_new_tokens}")


def finish_reason(tokens: list[int], end: int, n_ctx: int, eos: int | None) -> str | None:
    """Why the text ends here, if it does: "eos", "length" (it has `end` ids), or "context" (no more can be read)."""
    if tokens[-1] == eos:
        return "eos"
    if len(tokens) >= end:
        return "length"
    return "context" if len(tokens) > n_ctx else None
