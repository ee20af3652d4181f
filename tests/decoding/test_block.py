"""The block rule: its distribution by enumeration, its published numbers, and its wrong forms."""
from functools import partial

import pytest
import torch

from decoding import GREEDY, Sampling, speculative_greedy, speculative_rounds, speculative_sampling
from decoding.acceptance import accept_block, accept_sampled, judge
from decoding.proof import mistakes_of_blocks as mistakes
from decoding.proof.distributions import PROMPT, by_definition, by_enumeration, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, MemorylessModel, Parrot, random_prompt, tiny_pair
from decoding.random import draw
from decoding.sampling import UNCHANGED
from tests.checks import check_caches

TARGET, DRAFT = HashModel(1), HashModel(2)  # three words: two cannot show a wrong residual
SETTINGS = [UNCHANGED, Sampling(0.5), Sampling(top_k=2), Sampling(top_p=0.8), Sampling(0.7, 2, 0.9),
            GREEDY]
block = partial(by_enumeration, rule=accept_block)


def test_the_distribution_is_the_targets_for_every_gamma_and_setting():
    for sampling in SETTINGS:
        for gamma in range(3):
            found = block(TARGET, DRAFT, 3, gamma, sampling)
            assert difference(found, by_definition(TARGET, 3, sampling)) < 1e-12, (gamma, sampling)


@pytest.mark.slow
def test_three_drafted_tokens():
    for sampling in (UNCHANGED, Sampling(top_k=2), Sampling(2.0, top_p=0.7)):
        found = block(TARGET, DRAFT, 4, 3, sampling)
        assert difference(found, by_definition(TARGET, 4, sampling)) < 1e-12, sampling


def test_an_end_of_text_ends_the_text_wherever_it_comes_from():
    for eos in range(3):
        for gamma in range(3):
            found = block(TARGET, DRAFT, 3, gamma, eos=eos)
            assert difference(found, by_definition(TARGET, 3, eos=eos)) < 1e-12, (gamma, eos)


def test_any_draft_will_do():
    drafts = {"one-hot": Parrot(), "one-hot, and short of proposals": Parrot(most=1),
              "silent": Parrot(most=0), "the target": TARGET,
              "blind to one token": HashModel(2, never=[0]),
              "certain of one token": HashModel(2, never=[0, 2])}
    for name, draft in drafts.items():
        for n, gamma, sampling in ((3, 2, UNCHANGED), (4, 3, Sampling(0.5, top_p=0.9))):
            found = block(TARGET, draft, n, gamma, sampling)
            assert difference(found, by_definition(TARGET, n, sampling)) < 1e-12, (name, sampling)


def test_disjoint_supports():
    one, two = HashModel(1, never=[1, 2]), HashModel(2, never=[0])
    for target, draft in ((one, two), (two, one)):
        assert difference(block(target, draft, 4, 3), by_definition(target, 4)) < 1e-12


def tokens_per_round(rule, target, draft, gamma):
    """The expected tokens of a first round, exactly."""
    def program(generator):
        rounds = speculative_rounds(target, draft, PROMPT, gamma + 1, gamma=gamma, rule=rule,
                                    sampling=UNCHANGED, generator=generator)
        return len(next(rounds).emitted)
    return sum(n * chance for n, chance in distribution_of(program).items())


@pytest.mark.parametrize("p, q, gamma, token, blocks", [
    ((0.6, 0.4), (0.8, 0.2), 1, 1.8, 1.8),
    ((0.6, 0.4), (0.8, 0.2), 2, 2.44, 2.48),
    ((0.6, 0.4), (0.8, 0.2), 4, 3.3616, 3.6368),
    ((1 / 3, 2 / 3), (2 / 3, 1 / 3), 1, 5 / 3, 5 / 3),
    ((1 / 3, 2 / 3), (2 / 3, 1 / 3), 2, 19 / 9, 20 / 9),
    ((1 / 3, 2 / 3), (2 / 3, 1 / 3), 4, 211 / 81, 247 / 81)])
def test_the_published_numbers(p, q, gamma, token, blocks):
    models = MemorylessModel(list(p)), MemorylessModel(list(q))
    assert tokens_per_round(accept_sampled, *models, gamma) == pytest.approx(token, abs=1e-12)
    assert tokens_per_round(accept_block, *models, gamma) == pytest.approx(blocks, abs=1e-12)


def test_it_keeps_no_fewer_tokens_than_the_token_rule_and_as_many_of_one():
    for seed in range(4):
        models = HashModel(seed), HashModel(10 + seed)
        for gamma in (1, 2):
            ours, theirs = (tokens_per_round(rule, *models, gamma)
                            for rule in (accept_block, accept_sampled))
            assert ours > theirs + 1e-4 if gamma > 1 else abs(ours - theirs) < 1e-12


def test_a_stretch_is_kept_with_probability_P():
    """Line 1 of the proof: P(kept >= i | x_1 .. x_i) = P_i, over what is drafted after x_i."""
    numbers = torch.Generator().manual_seed(0)
    for _ in range(3):
        p, q = (torch.rand(n, 3, generator=numbers, dtype=torch.float64) for n in (4, 3))
        p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)

        def program(generator, q=q, p=p):
            drafted = torch.cat([draw(row[None], generator) for row in q])
            n = accept_block(drafted, q, p, generator).n.item()
            return tuple(drafted.tolist()), n, tuple(judge(drafted, q, p).P.tolist())

        found = distribution_of(program)
        for i in range(1, 4):
            for start in {drafted[:i] for drafted, _, _ in found}:
                ways = {way: chance for way, chance in found.items() if way[0][:i] == start}
                kept = sum(chance for (_, n, _), chance in ways.items() if n >= i)
                (P,) = {P[i] for _, _, P in ways}
                assert kept / sum(ways.values()) == pytest.approx(P, abs=1e-12)


def test_rounding_leaves_no_nan():
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    for q in (p[:1], p[:1] * (1 + 1e-7), p[:1] * (1 - 1e-7)):  # nearly equal, never nan
        found = judge(torch.tensor([1]), q, p)
        assert found.P.tolist() == pytest.approx([1, 1]) and found.h.tolist()[1] == pytest.approx(1)
        for seed in range(20):
            n, token, _, _ = accept_block(torch.tensor([1]), q, p,
                                          torch.Generator().manual_seed(seed))
            assert n.item() in (0, 1) and token.item() in (0, 1)


def test_greedily_it_is_the_greedy_rule():
    target, draft = tiny_pair()
    wanted = speculative_greedy(target, draft, [1, 2], 60, gamma=4)
    found = speculative_sampling(target, draft, [1, 2], 60, sampling=GREEDY, rule=accept_block)
    assert found.tokens == wanted.tokens
    assert [r.accepted for r in found.rounds] == [r.accepted for r in wanted.rounds]


def test_its_rounds_say_that_they_are_blocks_and_alpha_is_not_estimated():
    target, draft = tiny_pair()
    prompt = random_prompt(5)
    for rule in (accept_block, accept_sampled):
        rounds = list(speculative_rounds(target, draft, prompt, 60, gamma=4, rule=rule,
                                         sampling=UNCHANGED, trace=True,
                                         generator=torch.Generator().manual_seed(0)))
        for r in rounds:
            assert r.block == (rule is accept_block) == (r.trace.block is not None)
            if r.block:
                u, (P, h) = r.trace.u, r.trace.block
                passed = [i + 1 for i in range(len(r.drafted)) if u[i] < h[i + 1]]
                assert r.accepted == max(passed, default=0)
                assert r.tested == len(r.drafted)
                assert P[0] == 1 and h[-1].item() == pytest.approx(P[-1].item())
    run = speculative_sampling(target, draft, prompt, 60, rule=accept_block)
    assert run.accepted_per_tested is None and run.stats()["accepted_per_tested"] is None
    assert run.accepted_per_drafted == run.accepted / run.drafted
    check_caches(run, prompt)


WRONG = [mistakes.residual_of_the_token_rule, mistakes.stop_at_the_first_failure,
         mistakes.cap_at_the_end, mistakes.compare_with_P, mistakes.one_uniform_for_the_block]


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_noticed(rule):
    assert difference(by_enumeration(TARGET, DRAFT, 3, 2, rule=rule),
                      by_definition(TARGET, 3)) > 0.001


def test_two_words_do_not_show_a_wrong_residual():
    """Of two words the residual holds one, whichever way it is computed."""
    target, draft = HashModel(1, n_vocab=2), HashModel(2, n_vocab=2)
    found = by_enumeration(target, draft, 3, 2, rule=mistakes.residual_of_the_token_rule)
    assert difference(found, by_definition(target, 3)) < 1e-12


def test_ones_for_a_lookup_draft_are_noticed():
    found = by_enumeration(TARGET, Parrot(), 3, 2, rule=mistakes.ones_for_a_lookup_draft)
    assert difference(found, by_definition(TARGET, 3)) > 0.01


def test_the_token_rule_for_two_is_right_and_keeps_less():
    rule = mistakes.token_rule_up_to_two
    assert difference(by_enumeration(TARGET, DRAFT, 3, 2, rule=rule),
                      by_definition(TARGET, 3)) < 1e-12
    models = MemorylessModel([0.6, 0.4]), MemorylessModel([0.8, 0.2])
    assert tokens_per_round(rule, *models, 2) == pytest.approx(2.44, abs=1e-12)
    assert tokens_per_round(accept_block, *models, 2) == pytest.approx(2.48, abs=1e-12)
