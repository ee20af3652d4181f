"""Speculative decoding with trees: several candidates for a position, all verified in one pass.

SpecInfer (Miao et al. 2023, arXiv 2305.09781). The loop is that of `decoding/speculative.py`, and
for a chain, the tree without siblings, it does the same. What differs: every drafted token sees its
own branch only, the rule walks down from the root (`decoding/walks.py`), and the path that is kept
lies scattered in the cache, so its rows are moved together.
"""
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from decoding.drafters.tree import TEXT, Tree, TreeDrafter
from decoding.feed import NOTHING, TreeModel, feed_tree, prefill
from decoding.observer import Observer
from decoding.random import Generator
from decoding.result import Generation, Round
from decoding.sampling import Sampling, to_host, to_probs
from decoding.stop import Stop
from decoding.stopping import Eos, Request, check_vocabulary, new_request, warn_of_context
from decoding.walks import Rule, Test, usual_walk


@dataclass(frozen=True)
class TreeTrace:
    """What was computed in a round over a tree of N tokens."""

    p: Tensor  # (N + 1, n_vocab) the target's distribution after the text, and after each token
    q: Tensor  # (N, n_vocab) the draft's at each token's position
    logits: Tensor  # (N + 1, n_vocab)
    tests: list[Test]  # in the order in which they were made; none under `walk`


@dataclass(frozen=True)
class TreeRound(Round):
    """One pass of the target over a tree: `drafted` is all of its tokens, siblings too.

    A position counts as tested once, however many candidates it had. A token after a leaf is a
    bonus, one after rejected candidates a correction.
    """

    parents: list[int] = field(default_factory=list)  # the token each drafted one follows, or TEXT
    path: list[int] = field(default_factory=list)  # the drafted tokens that were kept

    @property
    def emitted(self) -> list[int]:
        kept = [self.drafted[i] for i in self.path]
        return kept if self.extra is None else [*kept, self.extra]

    @property
    def verdicts(self) -> list[str]:
        """Of candidates for a position those before the one that is kept are rejected.

        Those after it are not tested, as little as those on a branch that was not taken.
        """
        decided = [TEXT, *self.path][:self.tested]  # the tokens after which one was looked for
        kept = {self.parents[i]: i for i in self.path}
        return ["accepted" if i in self.path else
                "rejected" if parent in decided and i < kept.get(parent, len(self.parents)) else
                "not tested" for i, parent in enumerate(self.parents)]


def depths(parents: list[int]) -> list[int]:
    """Return the position of each drafted token in its round, counted from 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent == TEXT else found[parent] + 1)
    return found


@torch.no_grad()
def decode(target: TreeModel, drafter: TreeDrafter, request: Request, rule: Rule,
           observer: Observer) -> Iterator[TreeRound]:
    """Run the algorithm, one round at a time."""
    tokens, sampling, generator = list(request.prompt), request.sampling, request.generator
    observer.begin()
    # 0. prefill; branches lie side by side in the cache, so it has more rows than the text
    cache = target.new_cache(min(request.end, request.n_ctx) + drafter.nodes)
    prefill(target, cache, tokens)
    drafter.start(tokens, request.end)
    observer.prefilled()
    reason, nothing = None, Tree(NOTHING, torch.empty(0, target.config.n_vocab), [])
    while reason is None:
        observer.begin()
        # 1. how deep the tree may be
        L, k = len(tokens), request.room(len(tokens), drafter.n_ctx)
        # 2. draft: a tree of N tokens
        tree = drafter.propose_tree(tokens, k, sampling, generator) if k > 0 else nothing
        observer.lap("draft")
        # 3. verify: one pass over all branches
        logits = feed_tree(target, cache, tokens, tree.ids, tree.parents, len(tree.ids) + 1)
        observer.lap("verify")
        # 4. accept: a path from the root, and one token more
        p = to_probs(logits, sampling)  # (N + 1, n_vocab)
        tree = tree.to(p.device)
        ids = to_host([tree.ids], p, tree.q)
        path, token, tests = rule(tree, p, generator)
        # 5. emit
        path, extra, kind = settle(ids, tree, path, token, request, tokens)
        tokens += [ids[i] for i in path] + ([] if extra is None else [extra])
        reason = request.finish_reason(tokens)
        # 6. rewind: the target keeps the path, the draft what it has read of it
        before, end = cache.length, len(tokens) - 1
        cache.keep(L, [L + i for i in path[: end - L]])
        draft_held = drafter.rewind(min(L + in_order(path), end))
        observer.lap("accept", p=p, q=tree.q, logits=logits, tests=tests)
        yield TreeRound(ids, len(path), extra, kind, (before, cache.length), draft_held, reason,
                        parents=tree.parents, path=path, **observer.notes(TreeTrace))


def settle(ids: list[int], tree: Tree, path: list[int], token: int,
           request: Request, tokens: list[int]) -> tuple[list[int], int | None, str]:
    """Return the path that is kept, the extra token or None, and its kind.

    If end-of-text is on the path, or a token that completes a stop string, the text ends with it.
    tokens: the text before it.
    """
    ending = request.kept(tokens, [ids[i] for i in path])
    if ending is not None:
        return path[: len(ending)], None, "none"
    leaf = not tree.children(path[-1] if path else TEXT)
    return path, token, "bonus" if leaf else "correction"


def in_order(path: list[int]) -> int:
    """Count the tokens from the start of a path that were also drafted first, one after the other.

    These a draft that reads a chain has in its cache; after a sibling it has another token there.
    """
    return next((i for i, node in enumerate(path) if node != i), len(path))


def speculative_tree(target: TreeModel, drafter: TreeDrafter, prompt: list[int],
                     max_new_tokens: int, **options: Any) -> Generation:
    """Continue `prompt` with trees. The arguments are those of `tree_rounds`."""
    rounds = tree_rounds(target, drafter, prompt, max_new_tokens, **options)
    return Generation(list(rounds), drafter.depth)


def tree_rounds(target: TreeModel, drafter: TreeDrafter, prompt: list[int], max_new_tokens: int, *,
                sampling: Sampling, rule: Rule | None = None, eos: Eos = None,
                stop: Stop | None = None, generator: Generator | None = None,
                trace: bool = False) -> Iterator[TreeRound]:
    """Decode one round at a time: `next(rounds)` drafts a tree, verifies it, and walks down.

    drafter: such as `CombDrafter(draft, depth=4, width=2)` of `decoding.drafters.tree`.
    rule: `walk` or `walk_drawn` of `decoding.walks`; None takes the one that fits the sampling.

    The other arguments are those of `speculative_rounds`. Raises ValueError for what cannot be
    served.
    """
    request = new_request(target.config, prompt, max_new_tokens, sampling, eos, generator, stop)
    check_vocabulary(drafter, target.config.n_vocab)
    if max_new_tokens == 0:
        return iter(())
    warn_of_context(request.end, request.n_ctx, drafter.n_ctx)
    return decode(target, drafter, request, rule or usual_walk(sampling), Observer(trace=trace))
