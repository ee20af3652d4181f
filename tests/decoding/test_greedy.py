"""Greedy speculative decoding gives the ids of the plain loop.

For every gamma, budget, end-of-text, context and cache.

The plain loop itself is held against five lines that know neither caches nor rounds.
"""
import math

import pytest
import torch

from decoding import GREEDY, autoregressive, speculative_greedy, speculative_rounds
from decoding.acceptance import accept_greedy, accept_sampled
from decoding.feed import Uncached
from decoding.proof.toys import HashModel, Parrot, random_prompt, tiny_pair
from tests.checks import check_run

N = 12
TARGET, DRAFT = tiny_pair()
PROMPTS = [random_prompt(length) for length in (1, 2, 3, 200)]
CACHES = {"both": (True, True), "target": (True, False), "draft": (False, True),
          "none": (False, False)}


def continuation(model, prompt, n=N):
    """The greedy continuation by its definition.

    Read the whole text, take the best token, and again.
    """
    text = list(prompt)
    while len(text) < len(prompt) + n and len(text) <= model.config.n_ctx:
        logits = model.forward(torch.tensor([text]), None, last=1)[0, 0].tolist()
        text.append(logits.index(max(logits)))
    return text[len(prompt):]


def expected(ids, budget, eos):
    """What a run must give whose text would go on with `ids`: (new ids, finish reason)."""
    if eos in ids[:budget]:
        return ids[: ids.index(eos) + 1], "eos"
    return ids[:budget], "length" if len(ids) >= budget else "context"


def plain(model, prompt, budget, cached=True, **options):
    g = autoregressive(model if cached else Uncached(model), prompt, budget, **options)
    check_run(g, prompt, caches=(cached, False))
    return g.tokens, g.finish_reason


def speculative(target, draft, prompt, budget, cached="both", **options):
    caches = CACHES[cached]
    target, draft = (model if kept else Uncached(model)
                     for model, kept in zip((target, draft), caches))
    g = speculative_greedy(target, draft, prompt, budget, **options)
    check_run(g, prompt, caches=caches, draft_ctx=draft.config.n_ctx)
    return g.tokens, g.finish_reason


def test_the_plain_loop_gives_the_continuation_by_definition():
    for prompt in PROMPTS:
        ids = continuation(TARGET, prompt)
        for cached in (True, False):
            for budget in range(N + 1):
                assert plain(TARGET, prompt, budget, cached) == expected(ids, budget, None)
            for eos in set(ids):
                assert plain(TARGET, prompt, N, cached, eos=eos) == expected(ids, N, eos)


def test_speculative_ids_are_the_plain_ones_for_every_gamma_and_budget():
    for prompt in PROMPTS:
        ids = continuation(TARGET, prompt)
        for gamma in range(9):
            for budget in range(N + 1):
                found = speculative(TARGET, DRAFT, prompt, budget, gamma=gamma)
                assert found == expected(ids, budget, None), (gamma, budget)


def test_speculative_ids_are_the_plain_ones_for_every_end_of_text():
    for prompt in PROMPTS:
        ids = continuation(TARGET, prompt)
        for eos in set(ids):
            for gamma in range(9):
                found = speculative(TARGET, DRAFT, prompt, N, gamma=gamma, eos=eos)
                assert found == expected(ids, N, eos), (gamma, eos)


def test_caches_change_nothing():
    for prompt in PROMPTS:
        ids = continuation(TARGET, prompt)
        for cached in CACHES:
            for gamma in (0, 1, 4, 8):
                found = speculative(TARGET, DRAFT, prompt, N, cached, gamma=gamma)
                assert found == expected(ids, N, None)


def test_the_grid_sees_every_kind_of_round():
    runs = [speculative_greedy(TARGET, DRAFT, prompt, N, gamma=4) for prompt in PROMPTS]
    # each number of acceptances happens
    assert all(sum(g.histogram[i] for g in runs) for i in range(5))
    assert sum(g.corrections for g in runs) > 4 and sum(g.bonuses for g in runs) > 4
    assert all(len(set(g.tokens)) > 3 for g in runs)  # the text does not repeat itself
    cuts = [speculative_greedy(TARGET, DRAFT, prompt, N, eos=eos).cut for prompt in PROMPTS
            for eos in continuation(TARGET, prompt)]
    assert set(cuts) == {0, 1}  # an end-of-text comes as an extra token, and as an accepted draft


def test_single_precision_gives_the_same_ids():
    target, draft = tiny_pair(dtype=torch.float32)
    for prompt in PROMPTS:
        # the double-precision ones: there are no near-ties in these texts
        ids = continuation(TARGET, prompt)
        assert plain(target, prompt, N) == expected(ids, N, None)
        for gamma in range(9):
            found = speculative(target, draft, prompt, N, gamma=gamma)
            assert found == expected(ids, N, None), gamma


def test_every_combination_with_models_that_forgive_nothing():
    target, draft = HashModel(3, n_vocab=4), HashModel(2, n_vocab=4, n_ctx=99)
    # the last one leaves room for 16 - 9 + 1 = 8 tokens
    for prompt in ([0], [3, 1], [0, 1, 2, 3, 0, 1, 2, 3, 0]):
        ids = continuation(target, prompt)
        for budget in range(0, N + 1, 2 if len(prompt) == 2 else 3):
            for eos in {None, *ids}:
                assert plain(target, prompt, budget, eos=eos) == expected(ids, budget, eos)
                for gamma in (0, 1, 2, 3, 5, 8):
                    found = speculative(target, draft, prompt, budget, gamma=gamma, eos=eos)
                    assert found == expected(ids, budget, eos)


def test_a_copy_of_the_target_is_always_right_and_needs_the_fewest_rounds():
    for prompt in PROMPTS:
        for gamma in range(9):
            for budget, eos in ((N, None), (7, None), (N, continuation(TARGET, prompt)[-1])):
                g = speculative_greedy(TARGET, TARGET, prompt, budget, gamma=gamma, eos=eos)
                assert g.corrections == 0 and len(g.rounds) == math.ceil(g.new_tokens / (gamma + 1))
                assert g.accepted_per_tested == (1.0 if g.drafted else None)


def test_near_the_end_of_the_context_text_goes_one_token_beyond_it():
    prompt = PROMPTS[3]
    for room in range(5):  # the context holds so many tokens more than the prompt
        target, draft = tiny_pair(n_ctx=len(prompt) + room)
        ids = continuation(target, prompt)
        assert len(ids) == room + 1  # the last one is never fed
        assert plain(target, prompt, N) == expected(ids, N, None) == (ids, "context")
        for gamma in range(9):
            for budget in (room, room + 1, N):
                found = speculative(target, draft, prompt, budget, gamma=gamma)
                assert found == expected(ids, budget, None)
            # "length" comes before "context", and "eos" before both
            assert speculative(target, draft, prompt, room + 1, gamma=gamma)[1] == "length"
            assert speculative(target, draft, prompt, N, gamma=gamma, eos=ids[-1])[1] == "eos"


def test_a_draft_with_a_shorter_context_falls_silent_with_one_warning():
    prompt = PROMPTS[3]
    ids = continuation(TARGET, prompt)
    for draft_ctx, cached in ((1, "both"), (199, "both"), (200, "none"), (200, "both"),
                              (203, "both"), (209, "both")):
        _, draft = tiny_pair(draft_ctx=draft_ctx)
        for gamma in (1, 4):
            with pytest.warns(UserWarning, match=f"at most {draft_ctx} tokens") as warned:
                found = speculative(TARGET, draft, prompt, N, cached, gamma=gamma)
                assert found == expected(ids, N, None)
            assert len(warned) == 1


@pytest.mark.filterwarnings("ignore:the draft reads")
def test_each_round_drafts_as_many_as_gamma_the_budget_and_both_contexts_allow():
    prompt = PROMPTS[3]
    for target_ctx, draft_ctx, budget in ((256, 256, N), (205, 256, N), (256, 205, N),
                                          (207, 206, 99), (256, 199, N)):
        L, (target, draft) = len(prompt), tiny_pair(target_ctx, draft_ctx)
        for r in speculative_greedy(target, draft, prompt, budget, gamma=4).rounds:
            # Drafting k tokens, the draft reads k - 1 of them, the target all. One position is for
            # the extra token.
            room = min(len(prompt) + budget - L - 1, target_ctx - L, draft_ctx - L + 1)
            assert len(r.drafted) == max(0, min(4, room))
            L += len(r.emitted)


@pytest.mark.filterwarnings("error")
def test_a_draft_that_can_read_the_whole_text_warns_of_nothing():
    for draft_ctx, budget, gamma in ((210, N, 4), (256, 40, 4), (10, N, 0)):
        _, draft = tiny_pair(draft_ctx=draft_ctx)
        ids, _ = speculative(TARGET, draft, PROMPTS[3], budget, gamma=gamma)
        assert ids[:N] == continuation(TARGET, PROMPTS[3])


def test_the_sampled_rule_on_one_hot_rows_is_the_greedy_rule():
    for prompt in PROMPTS:
        rounds = [list(speculative_rounds(TARGET, DRAFT, prompt, N, gamma=4, rule=rule,
                                          sampling=GREEDY))
                  for rule in (accept_greedy, accept_sampled)]
        greedy, sampled = ([(r.drafted, r.accepted, r.extra) for r in found] for found in rounds)
        assert greedy == sampled


def test_a_drafter_need_not_be_a_model_and_may_propose_less_than_it_was_asked_for():
    for prompt in PROMPTS:
        for most in (0, 1, 3, 99):
            parrot = Parrot(n_vocab=24, n_ctx=256, most=most)
            g = speculative_greedy(TARGET, parrot, prompt, N, gamma=4)
            assert g.tokens == continuation(TARGET, prompt)
            assert max(len(r.drafted) for r in g.rounds) <= most
