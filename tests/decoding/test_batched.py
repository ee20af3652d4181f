"""Every text of a batch is what it would be alone, and several texts are independent."""
import random
from functools import partial
from itertools import product

import pytest
import torch

from decoding import (
    GREEDY,
    Sampling,
    autoregressive,
    autoregressive_batch,
    batch_rounds,
    speculative_batch,
    speculative_rounds,
    speculative_sampling,
)
from decoding.acceptance import accept_block
from decoding.compare import first_difference
from decoding.drafters import LookupDrafter, ModelDrafter
from decoding.gamma import AdaptiveGamma
from decoding.proof import mistakes
from decoding.proof.distributions import by_definition, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashDecoder, HashModel, random_prompt, tiny_pair
from decoding.result import Generation
from decoding.sampling import UNCHANGED
from decoding.speculative import usual_rule
from tests.checks import check_run

TARGET, DRAFT = tiny_pair()
SAMPLED = Sampling(0.9, top_k=12)


def seeds(prompts):
    return [torch.Generator().manual_seed(i) for i in range(len(prompts))]


def story(g):
    """All of a run but its times."""
    return [(r.drafted, r.accepted, r.extra, r.kind, r.target_cache, r.draft_cache, r.finish_reason,
             r.prefill_seconds is None, r.block) for r in g.rounds]


def alone(target, draft, prompt, n, gamma, sampling=GREEDY, eos=None, generator=None):
    rounds = speculative_rounds(target, draft, prompt, n, gamma=gamma, rule=usual_rule(sampling),
                                sampling=sampling, eos=eos, generator=generator)
    return check_run(Generation(list(rounds), gamma), prompt, draft_ctx=draft.config.n_ctx)


def same_as_alone(target, draft, prompts, budgets, gamma, sampling=GREEDY, eos=None, **options):
    found = speculative_batch(target, draft, prompts, budgets, gamma=gamma, sampling=sampling,
                              eos=eos, generators=seeds(prompts), **options)
    if isinstance(budgets, int):
        budgets = [budgets] * len(prompts)
    return [story(g) for g in found] == [
        story(alone(target, draft, prompt, n, gamma, sampling, eos, generator))
        for prompt, n, generator in zip(prompts, budgets, seeds(prompts))]


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_the_block_rule_judges_each_text_as_it_would_alone(gamma):
    """Texts of several lengths, budgets and ends, in one batch and one after the other."""
    numbers, ends, kept = random.Random(gamma), set(), 0
    for at_once, continuous in ((None, False), (2, False), (3, True)):
        prompts = [random_prompt(numbers.randint(1, 40)) for _ in range(6)]
        budgets = [0, 1, *(numbers.randint(2, 40) for _ in prompts[2:])]
        options = {"gamma": gamma, "rule": accept_block, "sampling": SAMPLED, "eos": 3}
        found = speculative_batch(TARGET, DRAFT, prompts, budgets, generators=seeds(prompts),
                                  at_once=at_once, continuous=continuous, **options)
        wanted = [Generation(list(speculative_rounds(TARGET, DRAFT, prompt, n, generator=generator,
                                                     **options)), gamma)
                  for prompt, n, generator in zip(prompts, budgets, seeds(prompts))]
        assert [story(g) for g in found] == [story(g) for g in wanted]
        assert all(r.block for g in found for r in g.rounds)
        ends |= {g.finish_reason for g in found}
        kept += sum(r.accepted == gamma for g in found for r in g.rounds)
    assert ends == {"eos", "length"} and kept > 0


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("gamma", [0, 1, 4, 8])
def test_every_text_has_the_rounds_it_has_alone(sampling, gamma):
    """Ids, what was drafted and kept, lengths of both caches, and the end."""
    numbers = random.Random(gamma)
    for trial in range(6):
        prompts = [random_prompt(numbers.randint(1, 40)) for _ in range(numbers.randint(1, 7))]
        budgets = [numbers.randint(0, 40) for _ in prompts]
        options = {"eos": numbers.choice([None, 3]), "at_once": numbers.choice([None, 1, 3]),
                   "continuous": numbers.choice([True, False])}
        assert same_as_alone(TARGET, DRAFT, prompts, budgets, gamma, sampling, **options), trial


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.filterwarnings("ignore:the draft reads")
def test_full_contexts(sampling):
    """Of the target, and of a draft that can read less: it falls silent for one text alone."""
    prompts = [random_prompt(n) for n in (1, 5, 20, 23, 24)]
    for draft_ctx, gamma, at_once in product((24, 12), (1, 4, 8), (None, 2)):
        target, draft = tiny_pair(n_ctx=24, draft_ctx=draft_ctx)
        for model in (target, draft):  # nothing may be looked up beyond the context
            model.wpe.weight.data = model.wpe.weight.data[:model.config.n_ctx]
        assert same_as_alone(target, draft, prompts, 60, gamma, sampling, at_once=at_once,
                             continuous=True), (draft_ctx, gamma, at_once)


def test_the_plain_loop():
    prompts = [random_prompt(n) for n in (3, 1, 8)]
    for sampling in (GREEDY, SAMPLED):
        found = autoregressive_batch(TARGET, prompts, 20, sampling=sampling, eos=3,
                                     generators=seeds(prompts), at_once=2)
        wanted = [autoregressive(TARGET, prompt, 20, sampling=sampling, eos=3, generator=generator)
                  for prompt, generator in zip(prompts, seeds(prompts))]
        assert [story(g) for g in found] == [story(g) for g in wanted]


@pytest.mark.parametrize("make", [partial(LookupDrafter, 24), partial(ModelDrafter, DRAFT)])
def test_a_drafter_for_each_text(make):
    prompts = [[1, 2, 3, 1, 2], [7] * 6, random_prompt(30), random_prompt(3)]
    for sampling, gamma in product((GREEDY, SAMPLED), (3, 8)):
        found = speculative_batch(TARGET, make, prompts, 40, gamma=gamma, sampling=sampling,
                                  eos=3, generators=seeds(prompts), at_once=2, continuous=True)
        for prompt, g, generator in zip(prompts, found, seeds(prompts)):
            rounds = speculative_rounds(TARGET, make(), prompt, 40, gamma=gamma, eos=3,
                                        rule=usual_rule(sampling), sampling=sampling,
                                        generator=generator)
            assert story(g) == story(Generation(list(rounds), gamma))
        assert any(g.accepted for g in found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_fewer_bits_only_near_ties_differ(dtype):
    target, draft = tiny_pair(dtype=dtype)
    prompts = [random_prompt(n) for n in (1, 4, 9, 30)]
    found = speculative_batch(target, draft, prompts, 60, gamma=4)
    differences = [first_difference(target, prompt, autoregressive(target, prompt, 60).tokens,
                                    g.tokens) for prompt, g in zip(prompts, found)]
    assert {d.verdict for d in differences if d is not None} <= {"near-tie"}


# How many texts are read at once, and which.

def passes(at_once, continuous, budgets=(1, 5, 2, 3, 1)):
    """The prompts of the texts in each pass of the plain loop."""
    return [sorted(found) for found in
            batch_rounds(TARGET, None, [[i] for i in range(len(budgets))], list(budgets), gamma=0,
                         at_once=at_once, continuous=continuous)]


def test_who_is_in_each_pass():
    assert passes(None, False) == [[0, 1, 2, 3, 4], [1, 2, 3], [1, 3], [1], [1]]
    assert passes(2, False) == [[0, 1], [1], [1], [1], [1], [2, 3], [2, 3], [3], [4]]
    assert passes(2, True) == [[0, 1], [1, 2], [1, 2], [1, 3], [1, 3], [3, 4]]


def test_no_pass_reads_more_than_it_has_to():
    """Of the texts that go on, each reads what it has not read yet, and no more."""
    class Watched(HashDecoder):
        def read(self, tokens, *rest):
            reads.append(tuple(tokens.shape))
            return super().read(tokens, *rest)

    reads = []
    list(batch_rounds(Watched(HashModel(1)), None, [[0, 1, 2], [1]], [2, 3], gamma=0))
    assert reads == [(2, 2), (2, 1), (2, 1), (1, 1)]
    reads.clear()
    target = Watched(HashModel(1))
    list(batch_rounds(target, target, [[0, 1, 2], [1]], [4, 2], gamma=8))
    # prefills; the first drafts 3 tokens, the second 1; both are verified, and all is accepted
    assert reads == [(2, 2), (2, 2), (2, 1), (2, 1), (2, 1), (2, 4)]


def test_the_callers_lists_stay_as_they_are():
    prompts = [[1, 2], [3]]
    first = speculative_batch(TARGET, DRAFT, prompts, 5)
    assert prompts == [[1, 2], [3]]
    assert [g.tokens for g in speculative_batch(TARGET, DRAFT, prompts, 5)] == [
        g.tokens for g in first]


def test_nothing_to_do():
    assert speculative_batch(TARGET, DRAFT, [], 5) == []
    (g,) = speculative_batch(TARGET, DRAFT, [[1]], 0)
    assert (g.tokens, g.finish_reason) == ([], "length")


@pytest.mark.parametrize("prompts, options, words", [
    ([[1], []], {}, "the prompt is empty"),
    ([[1], [1] * 257], {}, "the prompt has 257 tokens"),
    ([[1]], {"max_new_tokens": [1, 2]}, "1 prompts, but 2 numbers"),
    ([[1]], {"generators": []}, "and 0 generators"),
    ([[1]], {"gamma": -1}, "gamma must be a whole number of at least 0"),
    ([[1]], {"gamma": AdaptiveGamma()}, "gamma must be a whole number of at least 0"),
    ([[1]], {"at_once": 0}, "at_once must be at least 1"),
    ([[1]], {"eos": 24}, "eos must be one or several ids"),
    ([[1]], {"draft": HashDecoder(HashModel(1))}, "the draft has 3 tokens"),
])
def test_what_is_refused(prompts, options, words):
    with pytest.raises(ValueError, match=words):
        speculative_batch(**{"target": TARGET, "draft": DRAFT, "prompts": prompts,
                             "max_new_tokens": 3} | options)


@pytest.mark.parametrize("draft_ctx", [28, 29])
def test_a_draft_that_reads_less_is_told(draft_ctx, recwarn):
    """As alone: 10 + 20 tokens need a draft that reads 28."""
    target, draft = tiny_pair(draft_ctx=draft_ctx - 1)
    speculative_batch(target, draft, [random_prompt(10)], 20)
    told = [str(w.message) for w in recwarn]
    speculative_sampling(target, draft, random_prompt(10), 20)
    assert told == [str(w.message) for w in recwarn][len(told):]
    assert len(told) == (draft_ctx == 28)


# The distribution of two texts together, by enumeration of the real loop over the real cache.

def joint(budgets, gamma, sampling=UNCHANGED, rule=None, **options):
    """The largest difference between the distribution of two texts and the product of theirs."""
    target, draft, prompts = HashModel(1), HashModel(2), [[0, 1], [2]]

    def program(generator):
        found = speculative_batch(HashDecoder(target), HashDecoder(draft), prompts, list(budgets),
                                  gamma=gamma, sampling=sampling, rule=rule,
                                  generators=[generator] * 2, **options)
        return tuple(tuple(g.tokens) for g in found)

    one, two = (by_definition(target, n, sampling, options.get("eos"), prompt)
                for n, prompt in zip(budgets, prompts))
    wanted = {(a, b): one[a] * two[b] for a in one for b in two}
    return difference(distribution_of(program), wanted)


@pytest.mark.parametrize("budgets, gamma, options", [
    ((2, 2), 0, {}), ((2, 2), 1, {}), ((1, 3), 2, {}), ((3, 1), 2, {"eos": 2}),
    ((2, 2), 1, {"at_once": 1}), ((3, 2), 2, {"sampling": Sampling(0.7, top_k=2)}),
    ((3, 2), 2, {"sampling": Sampling(top_p=0.7), "eos": 0}),
    pytest.param((3, 2), 2, {"eos": 1}, marks=pytest.mark.slow),
])
def test_two_texts_have_the_product_of_their_distributions(budgets, gamma, options):
    assert joint(budgets, gamma, **options) < 1e-12


def test_a_wrong_rule_is_noticed():
    assert joint((2, 2), 1, rule=mistakes.redraw_from_p) > 0.01

