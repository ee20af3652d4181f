"""Several texts at once: speculative decoding with B texts in every pass of both models.

The steps are those of `decoding/speculative.py`. Each text has its own length, end, budget and
generator, and is exactly what it would be alone: rounding aside, the same ids in the same rounds.
Only the passes are shared. With nothing drafted this is the plain loop. Its passes run as they are,
on a GPU too: CUDA graphs (`model/fast/cuda_graphs.py`) are recorded for one text alone.
"""
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch

from decoding.drafters import Drafter, Silent
from decoding.drafters.batched import (
    BatchDrafter,
    BatchModelDrafter,
    DrafterForEach,
    rewind_texts,
)
from decoding.gamma import DEFAULT_GAMMA
from decoding.observer import Observer
from decoding.random import Generator, new_generator
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, Sampling, is_whole, to_host, to_probs
from decoding.speculative import Rule, settle, usual_rule
from decoding.stop import Stop
from decoding.stopping import Eos, Request, check_vocabulary, new_request, warn_of_context
from model import Decoder
from model.batch_cache import BatchCache, admit, read_texts


@dataclass(eq=False)
class Text:
    """One text of the batch."""

    index: int  # of its prompt
    request: Request
    tokens: list[int]
    reason: str | None = None  # why it has ended

    def emit(self, new: list[int]) -> None:
        self.tokens += new
        self.reason = self.request.finish_reason(self.tokens)


@dataclass
class Queue:
    """The texts that are not begun yet, and when they are let in."""

    waiting: deque[Text]
    at_once: int  # at most so many texts in a pass
    continuous: bool  # as soon as another text has ended; else when all have

    def next(self, running: int) -> list[Text]:
        """Take out the texts that begin now, beside so many that are running."""
        free = self.at_once - running if self.continuous or running == 0 else 0
        return [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]


@torch.no_grad()
def decode(target: Decoder, cache: BatchCache, drafter: BatchDrafter, queue: Queue, gamma: int,
           rule: Rule, sampling: Sampling) -> Iterator[dict[int, Round]]:
    """Run the algorithm, one pass of the target at a time. Yields {index of a text: its round}."""
    texts: list[Text] = []
    observer = Observer()
    while texts or queue.waiting:
        # 0. prefill: the prompts that begin now, but their last tokens, into both caches
        new = queue.next(len(texts))
        if new:
            observer.begin()
            admit(target, cache, [text.tokens for text in new])
            drafter.admit([text.tokens for text in new])
            observer.prefilled()
            texts += new
        observer.begin()
        # 1. how many to draft: for each text as many as it would alone
        k = [min(gamma, text.request.room(len(text.tokens), drafter.n_ctx)) for text in texts]
        # 2. draft: at most so many tokens of each text, and the rows they were drawn from
        drafts = drafter.propose([text.tokens for text in texts], k, sampling,
                                 [text.request.generator for text in texts])
        # 3. verify: one pass over all that the target has not read of any text
        unread = [(text.tokens + drafted.tolist())[length:]
                  for text, (drafted, _), length in zip(texts, drafts, cache.lengths)]
        last = [len(drafted) + 1 for drafted, _ in drafts]
        p = to_probs(read_texts(target, cache, unread, last), sampling)  # (sum of last, n_vocab)
        # 4. accept: each text by its own rows and its own generator
        drafts = [(drafted.to(p.device), q.to(p.device)) for drafted, q in drafts]
        verdicts = [rule(drafted, q, rows, text.request.generator)
                    for text, (drafted, q), rows in zip(texts, drafts, p.split(last))]
        numbers = iter(to_host([ids for verdict, (drafted, _) in zip(verdicts, drafts)
                                for ids in (verdict.n, verdict.token, drafted)],
                               p, *(q for _, q in drafts)))
        # 5. emit: what was accepted of each, and the token after it
        settled = [settle(list(islice(numbers, k + 1)), text.request, text.tokens)
                   for text, k in zip(texts, last)]
        for text, (ids, accepted, extra, _) in zip(texts, settled):
            text.emit(ids[:accepted] if extra is None else [*ids[:accepted], extra])
        # 6. rewind: no cache keeps a rejected token
        lengths = [len(text.tokens) - 1 for text in texts]
        held, draft_held = rewind_texts(cache, lengths), drafter.rewind(lengths)
        notes = observer.notes()  # the times are shared, too; that of a prefill is the new texts'
        yield {text.index: Round(*settled[b], held[b], draft_held[b], text.reason,
                                 block=verdicts[b].block is not None,
                                 **notes if text in new else notes | {"prefill_seconds": None})
               for b, text in enumerate(texts)}
        # 7. finished texts leave
        going = [b for b, text in enumerate(texts) if text.reason is None]
        cache.select(going)
        drafter.select(going)
        texts = [texts[b] for b in going]


def speculative_batch(target: Decoder, draft: Decoder | Callable[[], Drafter],
                      prompts: list[list[int]], max_new_tokens: int | Sequence[int], *,
                      gamma: int = DEFAULT_GAMMA, **options) -> list[Generation]:
    """Continue every prompt. Returns for each what it would be alone.

    The arguments are those of `batch_rounds`.
    """
    return collect(len(prompts), gamma, batch_rounds(target, draft, prompts, max_new_tokens,
                                                     gamma=gamma, **options))


def autoregressive_batch(model: Decoder, prompts: list[list[int]],
                         max_new_tokens: int | Sequence[int], **options) -> list[Generation]:
    """Continue every prompt by the plain loop. Returns for each what it would be alone.

    The arguments are those of `batch_rounds`.
    """
    return collect(len(prompts), 0, batch_rounds(model, None, prompts, max_new_tokens, gamma=0,
                                                 **options))


def collect(n: int, gamma: int, passes: Iterator[dict[int, Round]]) -> list[Generation]:
    """Run to the end, and sort the rounds by text."""
    rounds: list[list[Round]] = [[] for _ in range(n)]
    for found in passes:
        for index, round in found.items():
            rounds[index].append(round)
    return [Generation(some, gamma) for some in rounds]


def batch_rounds(target: Decoder, draft: Decoder | Callable[[], Drafter] | None,
                 prompts: list[list[int]], max_new_tokens: int | Sequence[int], *, gamma: int,
                 sampling: Sampling = GREEDY, rule: Rule | None = None, eos: Eos = None,
                 stop: Stop | None = None, generators: Sequence[Generator] | None = None,
                 at_once: int | None = None,
                 continuous: bool = False) -> Iterator[dict[int, Round]]:
    """Decode one pass of the target at a time: `next(passes)` returns {index of a prompt: Round}.

    draft: a model with the target's vocabulary, or a function that makes a drafter for one text,
        such as `lambda: LookupDrafter(n_vocab)`; None drafts nothing.
    prompts: of each text at least one token id, and no more than the target's context holds.
    max_new_tokens: of every text, or one number for each.
    gamma: tokens drafted per round, of each text.
    rule: `usual_rule(sampling)` if None.
    generators: of all randomness, one for each text; with the same seed as alone a text gets the
        same ids as alone. None makes them, seeded from the system.
    at_once: at most so many texts in a pass; None for all. The others wait, in their order.
    continuous: a waiting prompt takes the place of a text that has ended; else it waits until all
        that began with that text have ended.

    The rest is as for `speculative_rounds`. The seconds of a round are those of the whole pass.
    Raises ValueError for what cannot be served.
    """
    n, config = len(prompts), target.config
    budgets = (list(max_new_tokens) if isinstance(max_new_tokens, Sequence)
               else [max_new_tokens] * n)
    generators = [new_generator() for _ in prompts] if generators is None else generators
    if not len(budgets) == len(generators) == n:
        raise ValueError(f"{n} prompts, but {len(budgets)} numbers of new tokens and "
                         f"{len(generators)} generators")
    if not is_whole(gamma) or gamma < 0:
        raise ValueError(f"gamma must be a whole number of at least 0, not {gamma!r}")
    if at_once is not None and at_once < 1:
        raise ValueError(f"at_once must be at least 1, not {at_once}")
    requests = [new_request(config, prompt, budget, sampling, eos, generator, stop)
                for prompt, budget, generator in zip(prompts, budgets, generators)]
    texts = [Text(i, request, list(request.prompt)) for i, request in enumerate(requests)
             if budgets[i] > 0]
    longest = max((text.request.end for text in texts), default=0)
    capacity = min(longest, config.n_ctx) + gamma  # fillers may stand after a text's end
    at_once = min(at_once or n, len(texts))
    drafter = as_batch_drafter(draft if gamma > 0 else None, config.n_vocab, capacity, at_once)
    warn_of_context(longest, config.n_ctx, drafter.n_ctx)
    queue = Queue(deque(texts), at_once, continuous)
    cache = BatchCache(target.new_cache(capacity, at_once))
    return decode(target, cache, drafter, queue, gamma, rule or usual_rule(sampling), sampling)


def as_batch_drafter(draft: Decoder | Callable[[], Drafter] | None, n_vocab: int, capacity: int,
                     at_once: int) -> BatchDrafter:
    """Return a drafter of several texts for a target of `n_vocab` tokens.

    Raises ValueError if a model's vocabulary has another size.
    """
    if not isinstance(draft, Decoder):
        return DrafterForEach(draft or partial(Silent, n_vocab), n_vocab, capacity)
    check_vocabulary(draft.config, n_vocab)
    return BatchModelDrafter(draft, capacity, at_once)
