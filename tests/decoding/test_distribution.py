"""Speculative sampling writes every text with exactly the target's probability.

Shown without a single random number: the real loop is run once for each way that its draws and its
acceptance tests can turn out (decoding/proof/enumerate.py), the probabilities of the ways that lead
to the same text are added up, and the sums are compared with the definition. The toy models' logits
depend on the whole text, so a loop that looks at the wrong position is found out.
"""
from functools import partial

import pytest

from decoding import (
    GREEDY,
    Sampling,
    autoregressive,
    speculative_rounds,
    speculative_sampling,
)
from decoding.acceptance import accept_sampled
from decoding.feed import Uncached
from decoding.proof import mistakes
from decoding.proof.distributions import PROMPT, by_definition, by_enumeration, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, MemorylessModel, Parrot
from tests.checks import check_run

TARGET, DRAFT = HashModel(1), HashModel(2)
PLAIN = Sampling()
SETTINGS = [PLAIN, Sampling(0.5), Sampling(top_k=2), Sampling(top_p=0.8), Sampling(0.7, 2, 0.9),
            GREEDY]


def texts_of_plain_loop(sampling, eos, generator):
    return tuple(autoregressive(TARGET, PROMPT, 3, sampling=sampling, eos=eos,
                                generator=generator).tokens)


def test_the_plain_loop_has_the_distribution_it_is_defined_by():
    for sampling in SETTINGS:
        for eos in (None, 2):
            found = distribution_of(partial(texts_of_plain_loop, sampling, eos))
            assert difference(found,
                              by_definition(TARGET, 3, sampling, eos)) < 1e-12, (sampling, eos)


def test_the_distribution_is_the_targets_for_every_gamma_and_setting():
    for sampling in SETTINGS:
        for gamma in range(3):  # with three tokens to write, no more than two are ever drafted
            found = by_enumeration(TARGET, DRAFT, 3, gamma, sampling)
            assert difference(found, by_definition(TARGET, 3, sampling)) < 1e-12, (gamma, sampling)


@pytest.mark.slow
def test_four_tokens():
    for gamma, sampling in ((1, PLAIN), (3, Sampling(top_k=2)), (3, Sampling(2.0, top_p=0.7))):
        found = by_enumeration(TARGET, DRAFT, 4, gamma, sampling)
        assert difference(found, by_definition(TARGET, 4, sampling)) < 1e-12, (gamma, sampling)


def test_an_end_of_text_ends_the_text_wherever_it_comes_from():
    for eos in range(3):
        for gamma in range(3):
            found = by_enumeration(TARGET, DRAFT, 3, gamma, eos=eos)
            assert difference(found, by_definition(TARGET, 3, eos=eos)) < 1e-12, (gamma, eos)


def test_any_draft_will_do():
    drafts = {"one-hot": Parrot(), "one-hot, and short of proposals": Parrot(most=1),
              "silent": Parrot(most=0), "the target": TARGET,
              "blind to one token": HashModel(2, never=[0]),
              "certain of one token": HashModel(2, never=[0, 2])}
    for name, draft in drafts.items():
        for n, gamma, sampling in ((3, 2, PLAIN), (4, 3, Sampling(0.5, top_p=0.9))):
            found = by_enumeration(TARGET, draft, n, gamma, sampling)
            assert difference(found, by_definition(TARGET, n, sampling)) < 1e-12, (name, sampling)


def test_disjoint_supports():
    one, two = HashModel(1, never=[1, 2]), HashModel(2, never=[0])
    for target, draft in ((one, two), (two, one)):
        assert difference(by_enumeration(target, draft, 4, 3), by_definition(target, 4)) < 1e-12


def test_caches_and_contexts_change_nothing():
    for target, draft in ((TARGET, Uncached(DRAFT)), (Uncached(TARGET), DRAFT),
                          (Uncached(TARGET), Uncached(DRAFT))):
        assert difference(by_enumeration(target, draft, 3, 2), by_definition(TARGET, 3)) < 1e-12
    short = HashModel(1, n_ctx=4)  # two tokens of prompt, two more, and one that is never fed
    assert difference(by_enumeration(short, DRAFT, 9, 3), by_definition(short, 9)) < 1e-12


@pytest.mark.filterwarnings("ignore:the draft reads")
def test_a_draft_with_a_shorter_context_changes_nothing():
    for n_ctx in (1, 2, 3):
        found = by_enumeration(TARGET, HashModel(2, n_ctx=n_ctx), 3, 2)
        assert difference(found, by_definition(TARGET, 3)) < 1e-12, n_ctx


def test_the_counts_agree_on_every_path():
    histograms = []

    def program(generator):
        g = speculative_sampling(TARGET, DRAFT, PROMPT, 4, gamma=2, sampling=Sampling(top_k=2),
                                 eos=0, generator=generator)
        histograms.append(check_run(g, PROMPT).histogram)
        return tuple(g.tokens)

    assert difference(distribution_of(program),
                      by_definition(TARGET, 4, Sampling(top_k=2), eos=0)) < 1e-12
    assert all(any(histogram[i] for histogram in histograms) for i in range(3))


# The other half of the proof: the same enumeration rejects what is wrong.

def test_every_wrong_rule_is_noticed():
    rules = [mistakes.redraw_from_p, mistakes.softmax_residual, mistakes.residual_without_clamp,
             mistakes.residual_of_the_next_position, mistakes.bonus_from_residual,
             mistakes.one_uniform_for_all, mistakes.count_all_passed, mistakes.ratio_upside_down]
    target, draft = HashModel(1, n_vocab=2), HashModel(2, n_vocab=2)
    for rule in [accept_sampled, *rules]:
        error = difference(by_enumeration(target, draft, 3, 2, rule=rule), by_definition(target, 3))
        assert error < 1e-12 if rule is accept_sampled else error > 0.01, rule.__name__


def test_accepting_with_less_or_equal_can_write_what_the_target_cannot():
    target = HashModel(1, never=[2])
    wanted, found = by_definition(target, 3), by_enumeration(target, DRAFT, 3, 2,
                                                             rule=mistakes.less_or_equal)
    # no frequency would ever show it:
    assert max(abs(found[text] - wanted[text]) for text in wanted) < 1e-12
    # impossible texts, written with probability 0
    assert {found[text] for text in found.keys() - wanted.keys()} == {0}


def test_one_number_for_every_round_leaves_the_first_token_alone_and_spoils_the_text():
    def program(generator):
        rounds = speculative_rounds(TARGET, DRAFT, PROMPT, 3, gamma=1,
                                    rule=mistakes.OneNumberForEveryRound(), sampling=PLAIN,
                                    generator=generator)
        return tuple(token for r in rounds for token in r.emitted)

    found, wanted = distribution_of(program), by_definition(TARGET, 3)
    firsts = [[sum(chance for text, chance in texts.items() if text[0] == x) for x in range(3)]
              for texts in (found, wanted)]
    assert max(abs(a - b) for a, b in zip(*firsts)) < 1e-12
    assert difference(found, wanted) > 0.01


def test_a_bonus_after_an_end_of_text_is_noticed():
    def program(generator):
        rounds = speculative_rounds(TARGET, DRAFT, PROMPT, 3, gamma=2, rule=accept_sampled,
                                    sampling=PLAIN, generator=generator)
        rounds = mistakes.bonus_after_end_of_text(rounds, eos=2)
        return tuple(token for r in rounds for token in r.emitted)

    found, wanted = distribution_of(program), by_definition(TARGET, 3, eos=2)
    assert {2 in text[:-1] for text in found.keys() - wanted.keys()} == {True}


def test_q_must_be_what_the_token_was_drawn_from():
    for drawn, reported in ((GREEDY, PLAIN), (Sampling(top_k=2), PLAIN), (Sampling(0.5), PLAIN),
                            (PLAIN, Sampling(2.0))):
        draft = mistakes.TwoFacedDrafter(DRAFT, drawn, reported)
        assert difference(by_enumeration(TARGET, draft, 3, 2),
                          by_definition(TARGET, 3)) > 0.01, (drawn, reported)
    # another temperature alone is no mistake
    honest = mistakes.TwoFacedDrafter(DRAFT, Sampling(0.5), Sampling(0.5))
    assert difference(by_enumeration(TARGET, honest, 3, 2), by_definition(TARGET, 3)) < 1e-12


def test_the_famous_example_of_a_greedy_draft_with_a_soft_q():
    target, draft = MemorylessModel([0.6, 0.4]), MemorylessModel([0.8, 0.2])
    for drafter, wanted in ((draft, [0.6, 0.4]),
                            (mistakes.TwoFacedDrafter(draft, GREEDY, PLAIN), [0.75, 0.25])):
        found = by_enumeration(target, drafter, 2, 1)
        assert [round(found[x, 0] + found[x, 1], 12) for x in (0, 1)] == wanted


def test_filters_on_one_side_give_the_distribution_of_the_other_settings():
    for sampling in (Sampling(0.5), Sampling(top_k=2), Sampling(top_p=0.6)):
        only_the_draft = by_enumeration(TARGET, mistakes.TwoFacedDrafter(DRAFT, sampling, sampling),
                                        3, 2, PLAIN)
        assert difference(only_the_draft, by_definition(TARGET, 3, sampling)) > 0.01


def test_greedy_with_a_soft_ratio_writes_what_is_not_the_argmax():
    draft = mistakes.TwoFacedDrafter(DRAFT, GREEDY, PLAIN)
    found = by_enumeration(TARGET, draft, 3, 2, PLAIN, rule=mistakes.greedy_with_soft_ratio)
    assert len(found) > 1 == len(by_definition(TARGET, 3, GREEDY))


def test_a_draft_that_forgets_a_token_is_right_and_rejected_as_its_own_target():
    def program(drafter, generator):
        rounds = list(speculative_rounds(TARGET, drafter, PROMPT, 4, gamma=1, rule=accept_sampled,
                                         sampling=PLAIN, generator=generator))
        return all(r.accepted == len(r.drafted)
                   for r in rounds), tuple(token for r in rounds for token in r.emitted)

    found = distribution_of(lambda generator: program(mistakes.ForgetfulDrafter(TARGET), generator))
    kept = [sum(chance for (all_kept, _), chance in found.items() if all_kept == value)
            for value in (True, False)]
    texts = {}
    for (_, text), chance in found.items():
        texts[text] = texts.get(text, 0) + chance
    assert kept[1] > 0.01 and difference(texts, by_definition(TARGET, 4)) < 1e-12
    assert all(all_kept for all_kept, _ in distribution_of(partial(program, TARGET)))
