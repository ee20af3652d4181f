"""The plain autoregressive loop: one target pass, one token.

Everything else is measured against it.
"""
from collections.abc import Iterator

import torch

from decoding.feed import Model, feed, prefill, rewind
from decoding.observer import Observer
from decoding.random import Generator
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, Sampling, choose, to_host, to_probs
from decoding.stop import Stop
from decoding.stopping import Eos, Request, new_request


def autoregressive(model: Model, prompt: list[int], max_new_tokens: int, *,
                   sampling: Sampling = GREEDY, eos: Eos = None, stop: Stop | None = None,
                   generator: Generator | None = None) -> Generation:
    """Continue `prompt` by up to max_new_tokens ids.

    prompt: at least one token id, and no more than the context holds.
    sampling: temperature, top-k and top-p; GREEDY takes the most likely token.
    eos: the id of end-of-text, or several; after one of them nothing is written.
    stop: strings that end the text, as `Stop(["\n\n"], tokenizer)` of `decoding.stop`.
    generator: of all randomness; None makes one seeded from the system.
    Raises ValueError for what cannot be served.
    """
    rounds = autoregressive_rounds(model, prompt, max_new_tokens, sampling=sampling, eos=eos,
                                   stop=stop, generator=generator)
    return Generation(list(rounds), gamma=0)


def autoregressive_rounds(model: Model, prompt: list[int], max_new_tokens: int, *,
                          sampling: Sampling = GREEDY, eos: Eos = None,
                          stop: Stop | None = None,
                          generator: Generator | None = None) -> Iterator[Round]:
    """Do the same, one token at a time: each Round is one bonus token, with nothing drafted."""
    request = new_request(model.config, prompt, max_new_tokens, sampling, eos, generator, stop)
    return decode(model, request, Observer())


@torch.no_grad()
def decode(model: Model, request: Request, observer: Observer) -> Iterator[Round]:
    """Run the plain loop, one token at a time."""
    tokens = list(request.prompt)
    if request.end == len(tokens):
        return
    observer.begin()
    cache = model.new_cache(min(request.end, request.n_ctx))
    prefill(model, cache, tokens)
    observer.prefilled()
    reason = None
    while reason is None:
        observer.begin()
        p = to_probs(feed(model, cache, tokens), request.sampling)  # (1, n_vocab)
        tokens += to_host([choose(p, request.sampling, request.generator)], p)
        reason = request.finish_reason(tokens)
        lengths = rewind(cache, len(tokens) - 1)  # forgets nothing here; the speculative loop does
        yield Round([], 0, tokens[-1], "bonus", lengths, None, reason, **observer.notes())
