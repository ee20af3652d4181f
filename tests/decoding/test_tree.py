"""Trees: place and mask against single paths, caches, the distribution by enumeration, mistakes."""
import ast
import inspect
import random
from contextlib import nullcontext
from itertools import product

import pytest
import torch

from decoding import (
    GREEDY,
    Sampling,
    autoregressive,
    speculative_greedy,
    speculative_rounds,
    tree,
)
from decoding.acceptance import accept_greedy, accept_sampled
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters.tree import TEXT, CombDrafter, WidthsDrafter
from decoding.feed import Uncached, feed_tree, prefill
from decoding.proof import mistakes_of_trees as mistakes
from decoding.proof.distributions import (
    by_definition,
    by_enumeration_of_trees,
    difference,
)
from decoding.proof.toys import random_prompt, tiny_pair
from decoding.proof.tree_toys import HashTreeModel
from decoding.random import draw
from decoding.sampling import UNCHANGED
from decoding.tree import speculative_tree, tree_rounds
from decoding.walks import usual_walk, walk, walk_drawn
from model.tree import chain, tree_place

TARGET, DRAFT = HashTreeModel(1), HashTreeModel(2)
LARGE, SMALL = tiny_pair()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def some_tree(numbers, most=12):
    """The parents and the ids of a random tree."""
    n = numbers.randint(1, most)
    return [numbers.randint(-1, i - 1) for i in range(n)], [numbers.randrange(24) for _ in range(n)]


def path_to(parents, i):
    path = []
    while i >= 0:
        path, i = [i, *path], parents[i]
    return path


@torch.no_grad()
@pytest.mark.parametrize("cached", [True, False])
def test_every_row_of_a_tree_is_that_of_its_path_read_alone(cached):
    numbers = random.Random(0)
    for trial in range(25):
        prompt, (parents, ids) = random_prompt(1 + trial), some_tree(numbers)
        model = LARGE if cached else Uncached(LARGE)
        cache = model.new_cache(100)
        prefill(model, cache, prompt)
        rows = feed_tree(model, cache, prompt, torch.tensor(ids), parents, len(ids) + 1)
        for i in range(-1, len(ids)):
            text = prompt + [ids[j] for j in path_to(parents, i)]
            alone = LARGE.forward(torch.tensor([text]), last=1)[0, 0]
            torch.testing.assert_close(rows[i + 1], alone, rtol=0, atol=1e-9)


@torch.no_grad()
def test_the_cache_keeps_a_path_as_if_it_had_been_read_straight():
    numbers = random.Random(1)
    for trial in range(25):
        prompt, (parents, ids) = random_prompt(1 + trial), some_tree(numbers)
        cache, straight = LARGE.new_cache(100), LARGE.new_cache(100)
        feed_tree(LARGE, cache, prompt, torch.tensor(ids), parents, 1)
        path = path_to(parents, numbers.randrange(len(ids)))
        cache.keep(len(prompt), [len(prompt) + i for i in path])
        text = prompt + [ids[i] for i in path]
        LARGE.forward(torch.tensor([text]), straight, last=0)
        assert cache.length == straight.length == len(text)
        for found, wanted in ((cache.keys, straight.keys), (cache.values, straight.values)):
            torch.testing.assert_close(found[:, :, :, :len(text)], wanted[:, :, :, :len(text)],
                                       rtol=0, atol=1e-9)


def test_a_chain_has_the_place_of_an_ordinary_block():
    positions, mask = tree_place(chain(3), 2)
    assert positions.tolist() == [2, 3, 4]
    assert (mask == 0).tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_keep_refuses_rows_that_are_not_there():
    cache = LARGE.new_cache(9)
    LARGE.forward(torch.tensor([[1, 2, 3]]), cache, last=0)
    for rows in ([3], [0], [-1]):
        with pytest.raises(ValueError, match="not among positions 1 to 2"):
            cache.keep(1, rows)
    assert cache.length == 3


SETTINGS = [UNCHANGED, Sampling(0.5), Sampling(top_k=2), Sampling(0.7, top_p=0.9)]


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("depth, width, n", [(1, 1, 2), (1, 3, 2), (2, 1, 3), (2, 2, 3)])
def test_the_distribution_with_a_comb_is_the_targets(sampling, depth, width, n):
    found = by_enumeration_of_trees(TARGET, CombDrafter(DRAFT, depth, width), n, sampling)
    assert difference(found, by_definition(TARGET, n, sampling)) < 1e-12


@pytest.mark.slow
def test_three_candidates_and_three_levels():
    for drafter, n, sampling in ((CombDrafter(DRAFT, 2, 3), 3, UNCHANGED),
                                 (CombDrafter(DRAFT, 3, 2), 4, Sampling(top_k=2)),
                                 (WidthsDrafter(DRAFT, [2, 1]), 3, UNCHANGED),
                                 (WidthsDrafter(DRAFT, [2, 1, 2]), 4, Sampling(top_k=2))):
        found = by_enumeration_of_trees(TARGET, drafter, n, sampling)
        assert difference(found, by_definition(TARGET, n, sampling)) < 1e-12


@pytest.mark.parametrize("widths", [[2, 2], [2, 1], [1, 2]])
def test_the_distribution_with_a_tree_is_the_targets(widths):
    sampling = Sampling(top_k=2)
    found = by_enumeration_of_trees(TARGET, WidthsDrafter(DRAFT, widths), 3, sampling)
    assert difference(found, by_definition(TARGET, 3, sampling)) < 1e-12


def test_an_end_of_text_ends_the_text_wherever_it_comes_from():
    sampling = Sampling(top_k=2)
    for eos in range(3):
        for drafter in (CombDrafter(DRAFT, 2, 2), WidthsDrafter(DRAFT, [2, 1])):
            found = by_enumeration_of_trees(TARGET, drafter, 3, sampling, eos=eos)
            assert difference(found, by_definition(TARGET, 3, sampling, eos=eos)) < 1e-12


def test_drafts_that_know_fewer_words_have_fewer_siblings():
    for never in ([0], [0, 2]):
        drafter = CombDrafter(HashTreeModel(2, never=never), 2, 2)
        found = by_enumeration_of_trees(TARGET, drafter, 2)
        assert difference(found, by_definition(TARGET, 2)) < 1e-12


def test_any_tree_will_do_for_the_targets_own_choice():
    sampling = Sampling(top_k=2)
    for drafter in (mistakes.ChosenCandidates(DRAFT, 2, 2), CombDrafter(DRAFT, 2, 2)):
        found = by_enumeration_of_trees(TARGET, drafter, 3, sampling, rule=walk)
        assert difference(found, by_definition(TARGET, 3, sampling)) < 1e-12


def test_full_contexts_change_nothing():
    for drafter in (CombDrafter(DRAFT, 3, 2), WidthsDrafter(DRAFT, [2, 1, 1])):
        short = HashTreeModel(1, n_ctx=4)
        found = by_enumeration_of_trees(short, drafter, 9, Sampling(top_k=2))
        assert difference(found, by_definition(short, 9, Sampling(top_k=2))) < 1e-12


@pytest.mark.filterwarnings("ignore:the draft reads")
def test_a_draft_with_a_shorter_context_changes_nothing():
    for n_ctx in (1, 2, 3):
        short = HashTreeModel(2, n_ctx=n_ctx)
        for drafter in (CombDrafter(short, 2, 2), WidthsDrafter(short, [2, 1])):
            found = by_enumeration_of_trees(TARGET, drafter, 3, Sampling(top_k=2))
            assert difference(found, by_definition(TARGET, 3, Sampling(top_k=2))) < 1e-12


def test_a_tree_without_siblings_is_the_chain():
    """Round by round what the loop of `decoding/speculative.py` does, greedy and sampled."""
    prompt = random_prompt(5)
    for sampling, rule in ((GREEDY, accept_greedy), (UNCHANGED, accept_sampled)):
        for eos in (None, 7):
            wanted = list(speculative_rounds(LARGE, SMALL, prompt, 60, gamma=3, rule=rule, eos=eos,
                                             sampling=sampling, generator=OneByOne(5)))
            for drafter in (CombDrafter(SMALL, 3, 1), WidthsDrafter(SMALL, [1, 1, 1])):
                found = list(tree_rounds(LARGE, drafter, prompt, 60, sampling=sampling, eos=eos,
                                         generator=OneByOne(5)))
                assert [r.emitted for r in found] == [r.emitted for r in wanted]
                for f, w in zip(found, wanted):
                    assert (f.drafted, f.accepted, f.extra, f.kind, f.finish_reason, f.tested,
                            f.target_cache) == (w.drafted, w.accepted, w.extra, w.kind,
                                                w.finish_reason, w.tested, w.target_cache)
                    if isinstance(drafter, CombDrafter):
                        assert f.draft_cache == w.draft_cache


class OneByOne:
    """Draws and uniforms from two generators.

    So a loop that stops testing at the first rejection goes on with the same draws as one that
    has uniforms for all its tests. The uniforms are the same in each round.
    """

    def __init__(self, seed):
        self.draws, self.seed = seeded(seed), seed
        self.round = seeded(seed)

    def draw(self, probs):
        self.round = seeded(self.seed)
        return draw(probs, self.draws)

    def uniform(self, shape):
        return torch.rand(shape, generator=self.round, dtype=torch.float64)


@pytest.mark.parametrize("make", [lambda draft: CombDrafter(draft, 4, 3),
                                  lambda draft: WidthsDrafter(draft, [3, 2, 1, 1])])
def test_greedy_ids_are_the_baselines_and_more_are_kept_than_of_a_chain(make):
    passes = chain_passes = 0
    for length in range(1, 8):
        prompt = random_prompt(length)
        plain = autoregressive(LARGE, prompt, 60).tokens
        found = speculative_tree(LARGE, make(SMALL), prompt, 60, sampling=GREEDY)
        assert found.tokens == plain
        uncached = speculative_tree(Uncached(LARGE), make(Uncached(SMALL)), prompt, 60,
                                    sampling=GREEDY)
        assert uncached.tokens == plain
        passes += len(found.rounds)
        chain_passes += len(speculative_greedy(LARGE, SMALL, prompt, 60, gamma=4).rounds)
    assert passes < chain_passes


def test_a_small_context_greedily():
    for n_ctx, draft_ctx in ((20, 20), (20, 256), (256, 12)):
        target, draft = tiny_pair(n_ctx, draft_ctx)
        plain = autoregressive(target, random_prompt(5), 40)
        for drafter in (CombDrafter(draft, 4, 2), WidthsDrafter(draft, [2, 2, 1])):
            with pytest.warns(match="12") if draft_ctx == 12 else nullcontext():
                found = speculative_tree(target, drafter, random_prompt(5), 40, sampling=GREEDY)
            assert (found.tokens, found.finish_reason) == (plain.tokens, plain.finish_reason)


class Remembering(HashTreeModel):
    """A model whose last cache can be looked at."""

    def new_cache(self, capacity):
        self.cache = super().new_cache(capacity)
        return self.cache


@pytest.mark.parametrize("make", [lambda draft: CombDrafter(draft, 3, 2),
                                  lambda draft: WidthsDrafter(draft, [2, 2, 1])])
def test_after_each_round_the_caches_hold_the_text_and_nothing_else(make):
    """A token that the draft has read in vain would cost no exactness, only acceptance."""
    target, draft = (Remembering(seed, n_vocab=4, n_ctx=40) for seed in (3, 2))
    by_sibling = ended_on_path = 0
    for seed, eos in product(range(5), (None, 3)):
        text = [0, 1, 2]
        for r in tree_rounds(target, make(draft), text, 25, sampling=UNCHANGED, eos=eos,
                             generator=seeded(seed)):
            text += r.emitted
            assert target.cache.ids == text[:-1]
            assert draft.cache.ids == text[: draft.cache.length]
            assert (r.target_cache[1], r.draft_cache[1]) == (len(text) - 1, draft.cache.length)
            by_sibling += r.path != list(range(len(r.path)))
            ended_on_path += r.kind == "none"
    assert by_sibling > 5 and ended_on_path > 0


def test_shared_noise_gives_the_plain_loops_text():
    sampling, prompt = Sampling(1.0, 10), random_prompt(6)
    noise = SharedNoise(seeded(3))
    target, draft = (Coupled(model, sampling, noise) for model in (LARGE, SMALL))
    plain = autoregressive(target, prompt, 60).tokens
    for drafter in (CombDrafter(draft, 3, 2), WidthsDrafter(draft, [2, 2])):
        found = speculative_tree(target, drafter, prompt, 60, sampling=GREEDY)
        assert found.tokens == plain
        assert any(r.path and r.path != list(range(len(r.path))) for r in found.rounds)


def test_rounds_show_siblings_and_their_counts():
    prompt, text = random_prompt(5), random_prompt(5)
    run = speculative_tree(LARGE, CombDrafter(SMALL, 3, 2), prompt, 80, sampling=UNCHANGED,
                           generator=seeded(), trace=True)
    siblings = 0
    for r in run.rounds:
        L, k = len(text), min(3, 85 - len(text) - 1)
        assert len(r.drafted) == len(r.parents) == len(r.trace.q) == 2 * k
        assert len(r.trace.p) == 2 * k + 1
        assert r.parents == [*range(-1, k - 1), *range(-1, k - 1)]
        assert r.accepted == len(r.path) and r.tested == r.accepted + (r.kind == "correction")
        assert [r.parents[i] for i in r.path] == [TEXT, *r.path][:len(r.path)]
        text += r.emitted
        assert r.target_cache == (L + 2 * k, len(text) - 1)
        kept = [test.node for test in r.trace.tests if (test.u < test.ratio).item()]
        assert kept == r.path
        assert set(r.phase_seconds) == {"draft", "verify", "accept"}
        siblings += any(i >= k for i in r.path)
    assert siblings > 0 and run.tokens == text[5:]
    assert run.new_tokens == run.accepted + run.corrections + run.bonuses
    assert len(run.histogram) == 4 and sum(run.histogram) == len(run.rounds)


def test_requests_that_cannot_be_served_are_refused_at_once():
    drafter = CombDrafter(SMALL, 2, 2)
    for message, prompt, n in (("empty", [], 5), ("257 tokens", [0] * 257, 5),
                               ("max_new_tokens", [0], -1)):
        with pytest.raises(ValueError, match=message):
            tree_rounds(LARGE, drafter, prompt, n, sampling=GREEDY)
    with pytest.raises(ValueError, match="eos must be one or several ids"):
        tree_rounds(LARGE, drafter, [0], 5, sampling=GREEDY, eos=24)
    with pytest.raises(ValueError, match="the draft has 24 tokens in its vocabulary, the target 3"):
        tree_rounds(TARGET, drafter, [0], 5, sampling=GREEDY)
    assert speculative_tree(LARGE, drafter, [0], 0, sampling=GREEDY).tokens == []
    for make in (lambda: CombDrafter(SMALL, 0, 2), lambda: CombDrafter(SMALL, 2, 0),
                 lambda: WidthsDrafter(SMALL, []), lambda: WidthsDrafter(SMALL, [2, 0])):
        with pytest.raises(ValueError, match="at least 1"):
            make()


def test_the_usual_walk():
    assert (usual_walk(GREEDY), usual_walk(UNCHANGED)) == (walk, walk_drawn)


WRONG = [mistakes.p_unchanged, mistakes.q_not_renormalised, mistakes.compare_with_the_first_q,
         mistakes.last_from_the_first_p]


@pytest.mark.parametrize("rule", [mistakes.go_down, *WRONG])
def test_a_wrong_rule_is_noticed(rule):
    target, draft = HashTreeModel(5), HashTreeModel(6)
    found = by_enumeration_of_trees(target, CombDrafter(draft, 1, 2), 2, rule=rule)
    error = difference(found, by_definition(target, 2))
    assert error < 1e-12 if rule is mistakes.go_down else error > 0.01


def test_chosen_candidates_tested_as_if_they_were_drawn_are_noticed():
    drafter = mistakes.ChosenCandidates(DRAFT, 2, 2)
    found = by_enumeration_of_trees(TARGET, drafter, 2, rule=walk_drawn)
    assert difference(found, by_definition(TARGET, 2)) > 0.01


@torch.no_grad()
def test_many_chosen_candidates_are_worth_less_than_two_drawn_ones():
    text = torch.tensor([random_prompt(200)])
    p, q = (model.forward(text)[0].div(2).softmax(-1) for model in (LARGE, SMALL))
    drawn = [mistakes.chance_of_drawn(p, q, w, seeded()).mean() for w in (1, 2, 3)]
    assert drawn[0].item() == pytest.approx(torch.minimum(p, q).sum(-1).mean().item())
    assert drawn == sorted(drawn)
    assert mistakes.chance_of_chosen(p, q, 4).mean() < drawn[1]
    assert mistakes.chance_of_chosen(p, q, 24).mean().item() == pytest.approx(1)


def test_the_loop_fits_on_a_screen_and_asks_for_no_option():
    (function,) = ast.parse(inspect.getsource(tree.decode)).body
    body = function.body
    assert body[-1].end_lineno - body[0].lineno < 40
    assert not [node for node in ast.walk(function) if isinstance(node, ast.If)]
