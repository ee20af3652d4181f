"""Repeats the passes of a finished run: which logits was each of its tokens chosen from?

The same ids, in the same blocks, after a cache that was filled in the same blocks. With the same
layout and as many threads that gives the same logits, bit for bit.
"""
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from decoding.feed import Cache, Model, TreeCache, TreeModel, feed, feed_tree, prefill, rewind
from decoding.result import Round
from decoding.tree import TreeRound


@torch.no_grad()
def repeat(model: Model, prompt: list[int], rounds: Sequence[Round]) -> Iterator[Tensor]:
    """Yield for each token of a run the logits of the pass that it came from, (n_vocab,).

    model: the target, as the run had it.
    rounds: the run's.
    """
    tokens = list(prompt)
    cache = model.new_cache(max(round.target_cache[0] for round in rounds))
    prefill(model, cache, tokens)
    for round in rounds:
        yield from (read_tree(cast(TreeModel, model), cache, tokens, round)
                    if isinstance(round, TreeRound) else read_chain(model, cache, tokens, round))
        tokens += round.emitted
        rewind(cache, len(tokens) - 1)


def repeat_plain(model: Model, prompt: list[int], text: list[int]) -> Tensor:
    """Return what the plain loop would see along a text: the logits for each token, (T, n_vocab).

    model: as the plain loop has it.
    """
    rounds = [Round([], 0, token, "bonus", (length, length), None, None, 0.0)
              for length, token in enumerate(text, start=len(prompt))]
    return torch.stack(list(repeat(model, prompt, rounds)))


def read_chain(model: Model, cache: Cache, tokens: list[int], round: Round) -> Tensor:
    """Return the logits for the tokens that a round emitted, (n, n_vocab)."""
    drafted = torch.tensor(round.drafted, dtype=torch.long)
    return feed(model, cache, tokens, drafted, len(drafted) + 1)[: len(round.emitted)]


def read_tree(model: TreeModel, cache: Cache, tokens: list[int], round: TreeRound) -> Tensor:
    """Do the same where a round drafted a tree; the cache keeps the path."""
    drafted, L, n = torch.tensor(round.drafted, dtype=torch.long), len(tokens), len(round.emitted)
    logits = feed_tree(model, cache, tokens, drafted, round.parents, len(drafted) + 1)
    cast(TreeCache, cache).keep(L, [L + i for i in round.path[: n - 1]])
    return logits[[0, *(i + 1 for i in round.path)]][:n]  # of (N + 1, n_vocab)
