"""Speculative decoding: a draft proposes, the target verifies all proposals in one pass, a rule decides what stays.

Leviathan et al. 2023 (arXiv 2211.17192), Algorithm 1; Chen et al. 2023 (arXiv 2302.01318), Algorithm 2. Greedy and
stochastic decoding are the same loop and differ in the rule alone.
"""
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from decoding.acceptance import Acceptance, accept_greedy, accept_sampled
from decoding.adaptive import Gamma, as_gamma
from decoding.baseline import check_request, finish_reason
from decoding.drafters import Drafter, ModelDrafter
from decoding.feed import NOTHING, Model, feed, prefill, rewind
from decoding.result import Generation, Round, Trace
from decoding.sampling import GREEDY, UNCHANGED, Sampling, new_generator, to_probs
from decoding.stopwatch import Stopwatch

Rule = Callable[[Tensor, Tensor, Tensor, torch.Generator], Acceptance]

CACHED = {"both": (True, True), "target": (True, False), "draft": (False, True), "none": (False, False),
          True: (True, True), False: (False, False)}  # use_cache -> does the target have a cache, does the draft


def speculative_greedy(target: Model, draft: Model | Drafter, prompt: list[int], max_new_tokens: int, *,
                       gamma: int | str | Gamma = 4, eos: int | None = None, use_cache: str | bool = "both") -> Generation:
    """The target's greedy continuation of `prompt`: the ids that `autoregressive` gives, in fewer target passes."""
    gamma = as_gamma(gamma)
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens, gamma=gamma, rule=accept_greedy, sampling=GREEDY,
                                eos=eos, use_cache=use_cache)
    return Generation(list(rounds), gamma.largest)


def speculative_sampling(target: Model, draft: Model | Drafter, prompt: list[int], max_new_tokens: int, *,
                         gamma: int | str | Gamma = 4, sampling: Sampling = UNCHANGED, eos: int | None = None,
                         generator: torch.Generator | None = None, use_cache: str | bool = "both") -> Generation:
    """A continuation of `prompt` with the distribution of `autoregressive`'s; not the same text for the same seed, unless
    `sampling` has shared noise."""
    gamma = as_gamma(gamma)
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens, gamma=gamma, rule=usual_rule(sampling),
                                sampling=sampling, eos=eos, generator=generator, use_cache=use_cache)
    return Generation(list(rounds), gamma.largest)


def speculative_rounds(target: Model, draft: Model | Drafter, prompt: list[int], max_new_tokens: int, *,
                       gamma: int | str | Gamma, rule: Rule, sampling: Sampling, eos: int | None = None,
                       generator: torch.Generator | None = None, use_cache: str | bool = "both",
                       trace: bool = False) -> Iterator[Round]:
    """The algorithm, one round at a time: `next(rounds)` drafts, verifies, accepts, and stops to be looked at.

    gamma: tokens drafted per round, at least 0, or "auto": as many as have paid so far, see `decoding.adaptive`.
    use_cache: "both", "target", "draft" or "none". Raises ValueError for arguments that cannot be served. A draft whose
    context is full stays silent, with one warning, and the target goes on.
    """
    check_request(target, prompt, max_new_tokens)
    gamma = as_gamma(gamma)
    if use_cache not in CACHED:
        raise ValueError(f'use_cache must be "both", "target", "draft" or "none", not {use_cache!r}')
    cached = CACHED[use_cache]
    drafter = draft if hasattr(draft, "propose") else ModelDrafter(draft, cached[1])
    if drafter is not draft and draft.config.n_vocab != target.config.n_vocab:
        raise ValueError(f"the draft has {draft.config.n_vocab} tokens in its vocabulary, "
                         f"the target {target.config.n_vocab}")
    if gamma.largest > 0 and min(len(prompt) + max_new_tokens - 2, target.config.n_ctx - 1) > drafter.n_ctx:
        warnings.warn(f"the draft reads at most {drafter.n_ctx} tokens; beyond them the target goes on alone", stacklevel=2)
    return _rounds(target, drafter, list(prompt), max_new_tokens, gamma, rule, sampling, eos,
                   generator or new_generator(), cached, trace)


@torch.no_grad()
def _rounds(target, drafter, tokens, max_new_tokens, gamma, rule, sampling, eos, generator, cached, trace):
    if max_new_tokens == 0:
        return
    # 0. prefill: the prompt but its last token, into both caches
    end, n_ctx = len(tokens) + max_new_tokens, target.config.n_ctx
    watch = Stopwatch()
    cache = target.new_cache(min(end, n_ctx)) if cached[0] else None
    prefill(target, cache, tokens)
    if gamma.largest > 0:
        drafter.start(tokens, end)
    prefill_seconds = watch.total() if any(cached) else None
    reason = None
    while reason is None:
        watch = Stopwatch(laps=trace or gamma.timed)
        # 1. how many to draft: so many that neither the budget nor a context ever cuts a block
        L = len(tokens)
        k = max(0, min(gamma.choose(), end - L - 1, n_ctx - L, drafter.n_ctx - L + 1))
        # 2. draft
        drafted, q = drafter.propose(tokens, k, sampling, generator) if k > 0 else (NOTHING, None)
        watch.lap("draft")
        # 3. verify: one pass over all that the target has not read, the draft included
        logits = feed(target, cache, tokens, drafted, last=len(drafted) + 1)  # (k + 1, n_vocab)
        watch.lap("verify")
        # 4. accept: n of the drafted tokens, and one token more
        p = to_probs(logits, sampling, L)
        drafted, q = drafted.to(p.device), q.to(p.device) if len(drafted) > 0 else p[:0]
        verdict = rule(drafted, q, p, generator)
        n, token, *ids = torch.cat([verdict.n, verdict.token, drafted]).tolist()  # the one wait for the device
        # 5. emit
        accepted, extra, kind = settle(ids, n, token, eos)
        tokens += ids[:accepted] if extra is None else ids[:accepted] + [extra]
        reason = finish_reason(tokens, end, n_ctx, eos)
        # 6. rewind: neither cache keeps a rejected token; the last one emitted is fed in the next round
        target_lengths = rewind(cache, len(tokens) - 1)
        draft_lengths = drafter.rewind(len(tokens) - 1) if gamma.largest > 0 else None
        watch.lap("accept")
        round = Round(ids, accepted, extra, kind, watch.total(), target_lengths, draft_lengths, reason, prefill_seconds,
                      Trace(p, q, logits, verdict.u, watch.seconds) if trace else None)
        gamma.learn(round, watch.seconds)
        yield round
        prefill_seconds = None


def usual_rule(sampling: Sampling) -> Rule:
    """The rule that keeps the target's law: the greedy one where one choice is left at every place."""
    return accept_greedy if sampling.deterministic else accept_sampled


def settle(ids: list[int], n: int, token: int, eos: int | None) -> tuple[int, int | None, str]:
    """What the rule's verdict, n accepted and then `token`, comes to: how many are kept, the extra token, its kind.

    Text ends behind an end-of-text: if one is among the accepted, what the rule saw behind it does not count.
    """
    if eos in ids[:n]:
        return ids.index(eos) + 1, None, "none"
    return n, token, "bonus" if n == len(ids) else "correction"
