"""Speculative decoding: a draft proposes, the target verifies in one pass, a rule decides.

Leviathan et al. 2023 (arXiv 2211.17192), Algorithm 1; Chen et al. 2023 (arXiv 2302.01318),
Algorithm 2. Greedy and stochastic decoding are the same loop, `decode`, and differ in the rule
alone.
"""
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from decoding.acceptance import Acceptance, accept_greedy, accept_sampled
from decoding.drafters import Drafter, ModelDrafter, Silent, propose
from decoding.feed import Model, feed, prefill, rewind
from decoding.gamma import DEFAULT_GAMMA, FixedGamma, Gamma, as_gamma, most
from decoding.observer import Observer
from decoding.random import Generator
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, UNCHANGED, Sampling, to_host, to_probs
from decoding.stop import Stop
from decoding.stopping import Eos, Request, check_vocabulary, new_request, warn_of_context

Rule = Callable[[Tensor, Tensor, Tensor, Generator], Acceptance]


@torch.no_grad()
def decode(target: Model, drafter: Drafter, request: Request, gamma: Gamma, rule: Rule,
           observer: Observer) -> Iterator[Round]:
    """Run the algorithm, one round at a time."""
    tokens, sampling, generator = list(request.prompt), request.sampling, request.generator
    # 0. prefill: the prompt but its last token, into both caches
    observer.begin()
    cache = target.new_cache(min(request.end, request.n_ctx))
    prefill(target, cache, tokens)
    drafter.start(tokens, request.end)
    observer.prefilled()
    reason = None
    while reason is None:
        observer.begin()
        # 1. how many to draft
        k = min(gamma.choose(), request.room(len(tokens), drafter.n_ctx))
        # 2. draft: k tokens, fewer if the drafter has no more, and the rows they were drawn from
        drafted, q = propose(drafter, tokens, k, target.config.n_vocab, sampling, generator)
        k = len(drafted)
        observer.lap("draft")
        # 3. verify: one pass over all that the target has not read, the drafted tokens included
        logits = feed(target, cache, tokens, drafted, last=k + 1)  # (k + 1, n_vocab)
        observer.lap("verify")
        # 4. accept: n of the drafted tokens, and one token more
        p = to_probs(logits, sampling)
        drafted, q = drafted.to(p.device), q.to(p.device)
        n, token, u, block = rule(drafted, q, p, generator)
        # 5. emit: what was accepted, and the token after it
        ids, accepted, extra, kind = settle(to_host([n, token, drafted], p, q), request, tokens)
        tokens += ids[:accepted] if extra is None else [*ids[:accepted], extra]
        reason = request.finish_reason(tokens)
        # 6. rewind: no cache keeps a rejected token; the last one emitted is fed in the next round
        held, draft_held = rewind(cache, len(tokens) - 1), drafter.rewind(len(tokens) - 1)
        observer.lap("accept", p=p, q=q, logits=logits, u=u, block=block)
        round = Round(ids, accepted, extra, kind, held, draft_held, reason,
                      block=block is not None, **observer.notes())
        gamma.learn(round)
        yield round


def settle(numbers: list[int], request: Request,
           tokens: list[int]) -> tuple[list[int], int, int | None, str]:
    """Return the drafted ids, how many are kept, the extra token or None, and its kind.

    numbers: how many the rule accepted, the token it put after them, and the drafted ids.
    tokens: the text before them.

    If end-of-text is among the accepted, or one completes a stop string, the text ends with it:
    what the rule decided about later tokens does not count.
    """
    kept, extra, *ids = numbers
    ending = request.kept(tokens, ids[:kept])
    if ending is not None:
        return ids, len(ending), None, "none"
    return ids, kept, extra, "bonus" if kept == len(ids) else "correction"


def speculative_greedy(target: Model, draft: Model | Drafter, prompt: list[int],
                       max_new_tokens: int, *, gamma: int | Gamma = DEFAULT_GAMMA,
                       eos: Eos = None, stop: Stop | None = None) -> Generation:
    """Continue `prompt` greedily: the ids that `autoregressive` gives, in fewer target passes.

    The arguments are those of `speculative_rounds`.
    """
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens, gamma=gamma,
                                rule=accept_greedy, sampling=GREEDY, eos=eos, stop=stop)
    return Generation(list(rounds), most(gamma))


def speculative_sampling(target: Model, draft: Model | Drafter, prompt: list[int],
                         max_new_tokens: int, *, gamma: int | Gamma = DEFAULT_GAMMA,
                         rule: Rule | None = None, sampling: Sampling = UNCHANGED,
                         eos: Eos = None, stop: Stop | None = None,
                         generator: Generator | None = None) -> Generation:
    """Continue `prompt` by sampling: the texts have the distribution that `autoregressive` gives.

    With the same seed the two need not write the same text. The arguments are those of
    `speculative_rounds`; with rule=None it is the usual one.
    """
    rounds = speculative_rounds(target, draft, prompt, max_new_tokens, gamma=gamma,
                                rule=rule or usual_rule(sampling), sampling=sampling, eos=eos,
                                stop=stop, generator=generator)
    return Generation(list(rounds), most(gamma))


def speculative_rounds(target: Model, draft: Model | Drafter, prompt: list[int],
                       max_new_tokens: int, *, gamma: int | Gamma, rule: Rule, sampling: Sampling,
                       eos: Eos = None, stop: Stop | None = None,
                       generator: Generator | None = None, trace: bool = False) -> Iterator[Round]:
    """Decode one round at a time: `next(rounds)` drafts, verifies and accepts, and returns a Round.

    draft: a model with the target's vocabulary, or a drafter (`decoding.drafters`). When its
        context is full, the target goes on alone; a warning says so at the start.
    prompt: at least one token id, and no more than the target's context holds.
    gamma: tokens drafted per round, or an object that chooses it, such as `AdaptiveGamma()` of
        `decoding.gamma`.
    rule: decides which drafted tokens stay: `accept_greedy` or `accept_sampled` of
        `decoding.acceptance`, as `usual_rule(sampling)` tells; `accept_block`, which samples and
        keeps more; or one of your own.
    sampling: temperature, top-k and top-p, of target and draft alike.
    eos: the id of end-of-text, or several; after one of them nothing is written.
    stop: strings that end the text, as `Stop(["\n\n"], tokenizer)` of `decoding.stop`.
    generator: of all randomness; None makes one seeded from the system.
    trace: keep in each Round what was computed, and the time of each phase.
    Raises ValueError for what cannot be served.
    """
    request = new_request(target.config, prompt, max_new_tokens, sampling, eos, generator, stop)
    gamma, n_vocab = as_gamma(gamma), target.config.n_vocab
    drafter = as_drafter(draft, n_vocab) if gamma.largest > 0 else Silent(n_vocab)
    if max_new_tokens == 0:
        return iter(())
    warn_of_context(request.end, request.n_ctx, drafter.n_ctx)
    observer = Observer(phases=not isinstance(gamma, FixedGamma), trace=trace)
    return decode(target, drafter, request, gamma, rule, observer)


def as_drafter(draft: Model | Drafter, n_vocab: int) -> Drafter:
    """Return a drafter for a target of `n_vocab` tokens, made of a model if need be.

    Raises ValueError if its vocabulary, where it names one, has another size.
    """
    drafter = ModelDrafter(draft) if isinstance(draft, Model) else draft
    check_vocabulary(drafter, n_vocab)
    return drafter


def usual_rule(sampling: Sampling) -> Rule:
    """Return the rule that keeps the target's distribution under this sampling."""
    return accept_greedy if sampling.greedy else accept_sampled
