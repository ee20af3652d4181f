"""Small models for tests: quick, exact, and unforgiving about positions and caches."""
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from model import GPT2, GPT2Config


class TextCache:
    """A cache that keeps the ids themselves, so that one look shows what a loop left in it."""

    def __init__(self, capacity):
        self.ids, self.capacity = [], capacity

    @property
    def length(self):
        return len(self.ids)

    def truncate(self, length):
        assert 0 <= length <= self.length
        del self.ids[length:]


class HashModel:
    """Logits that depend on every id so far: one random row for each text. A wrong token in a cache gives other logits.

    never: ids of probability 0, whatever the text.
    """

    def __init__(self, seed, n_vocab=3, n_ctx=16, never=()):
        self.config = SimpleNamespace(n_vocab=n_vocab, n_ctx=n_ctx)
        self.seed, self.never, self.rows = seed, never, {}

    def new_cache(self, capacity):
        return TextCache(capacity)

    def row(self, text):
        if text not in self.rows:
            numbers = random.Random(f"{self.seed} {text}")
            row = torch.tensor([numbers.gauss(0, 1.5) for _ in range(self.config.n_vocab)], dtype=torch.float64)
            row[list(self.never)] = -math.inf
            self.rows[text] = row
        return self.rows[text]

    def forward(self, tokens, cache=None, last=None):
        new = tokens[0].tolist()
        text = new if cache is None else cache.ids + new
        assert new and len(text) <= self.config.n_ctx and (cache is None or len(text) <= cache.capacity)
        if cache is not None:
            cache.ids = text
        last = len(new) if last is None else last
        rows = [self.row(tuple(text[:end])) for end in range(len(text) - last + 1, len(text) + 1)]
        return torch.stack(rows)[None] if rows else torch.empty(1, 0, self.config.n_vocab, dtype=torch.float64)


class MemorylessModel(HashModel):
    """The same distribution after every text."""

    def __init__(self, probs, n_ctx=16):
        super().__init__(seed=0, n_vocab=len(probs), n_ctx=n_ctx)
        self.logits = torch.tensor(probs, dtype=torch.float64).log()

    def row(self, text):
        return self.logits


class Untouchable:
    """A model that nobody may run."""

    config = SimpleNamespace(n_vocab=3, n_ctx=16)

    def forward(self, *_, **__):
        raise AssertionError("the model was run")

    new_cache = forward


class Parrot:
    """A drafter without a model: it repeats the last token, with a one-hot q, and never more than `most` times."""

    def __init__(self, n_vocab=3, n_ctx=16, most=99):
        self.n_vocab, self.n_ctx, self.most = n_vocab, n_ctx, most

    def start(self, prompt, capacity):
        pass

    def propose(self, tokens, k, sampling, generator):
        ids = torch.tensor(tokens[-1:] * min(k, self.most), dtype=torch.long)
        return ids, F.one_hot(ids, self.n_vocab).double()

    def rewind(self, length):
        return None


class Spy:
    """Any model, with a record of what it read: one (ids already in its cache, new ids) for each forward."""

    def __init__(self, model):
        self.model, self.config, self.reads, self.cache = model, model.config, [], None

    def new_cache(self, capacity):
        self.cache = self.model.new_cache(capacity)
        return self.cache

    def forward(self, tokens, cache=None, last=None):
        self.reads.append((0 if cache is None else cache.length, tokens[0].tolist()))
        return self.model.forward(tokens, cache, last=last)


def tiny_pair(n_ctx=256, draft_ctx=256, dtype=torch.float64):
    """Two GPT-2s of random weights, which write varied text: the draft is the target with noise and is right half the time.

    The weights are always the same; n_ctx and draft_ctx only say how many tokens the two can read.
    """
    generator = torch.Generator().manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_vocab=24, n_ctx=256)
    target, draft = GPT2(config), GPT2(config)
    for (name, ours), theirs in zip(target.named_parameters(), draft.parameters(), strict=True):
        spread = 0.1 if name.endswith("bias") else 0.3 if name.startswith("h.") else 1.0
        weight = spread * torch.randn(ours.shape, generator=generator, dtype=torch.float64)
        noise = spread * torch.randn(ours.shape, generator=generator, dtype=torch.float64)
        ours.data, theirs.data = weight.to(dtype), (weight + 0.1 * noise).to(dtype)
    target.config, draft.config = replace(config, n_ctx=n_ctx), replace(config, n_ctx=draft_ctx)
    return target.eval(), draft.eval()


def random_prompt(length, n_vocab=24):
    numbers = random.Random(length)
    return [numbers.randrange(n_vocab) for _ in range(length)]


def plain_probs(logits, sampling):
    """to_probs for one row of Python numbers, slow and obvious."""
    ids, best = range(len(logits)), max(logits)
    if sampling.temperature == 0:
        return [float(i == logits.index(best)) for i in ids]
    weights = [math.exp((logit - best) / sampling.temperature) for logit in logits]
    kept = sorted(ids, key=lambda i: (-weights[i], i))[: sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        total, mass = sum(weights[i] for i in kept), 0.0
        for count, i in enumerate(kept, 1):
            mass += weights[i] / total
            if mass >= sampling.top_p:
                break
        kept = kept[:count]
    kept = set(kept)
    total = sum(weights[i] for i in kept)
    return [weights[i] / total if i in kept else 0.0 for i in ids]


def chi_square_p_value(counts, expected):
    """How likely counts at least this far from the expected ones are, if these are right. Every expectation should be >= 5."""
    assert len(counts) == len(expected) > 1 and min(expected) >= 5
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected))
    # With n cells the statistic has the chi-square law of n - 1 degrees of freedom, a regularised gamma function.
    half = torch.tensor([(len(counts) - 1) / 2, statistic / 2], dtype=torch.float64)
    return torch.special.gammaincc(half[0], half[1]).item()
