"""decoding/result.py: the numbers of a run that is short enough to be counted by hand."""
import dataclasses
import json

import pytest

from decoding import GREEDY, Generation, Round, autoregressive, speculative_greedy
from decoding.feed import Uncached
from decoding.proof.toys import HashModel, random_prompt
from tests.checks import check_counts
from tests.decoding.test_gamma import Clock, Timed


def a_round(drafted, accepted, extra, kind, seconds=0.5, finish_reason=None, prefill_seconds=None):
    return Round(drafted, accepted, extra, kind, (9, 8), (8, 7), finish_reason, seconds,
                 prefill_seconds)


BY_HAND = Generation([
    a_round([1, 2, 3], 3, 4, "bonus", prefill_seconds=0.25),  # all of the draft, and one more
    a_round([5, 6, 7], 1, 8, "correction"),  # one of the draft, and another token for the second
    a_round([9, 9, 9], 0, 1, "correction"),
    a_round([], 0, 2, "bonus"),  # a silent draft
    a_round([3, 0, 5], 2, None, "none", finish_reason="eos"),  # the second is the end of the text
], gamma=3)


def test_the_numbers_of_a_run_by_hand():
    assert BY_HAND.tokens == [1, 2, 3, 4, 5, 8, 1, 2, 3, 0]
    assert BY_HAND.finish_reason == "eos"
    assert BY_HAND.stats() == {
        "rounds": 5, "new_tokens": 10, "drafted": 12, "tested": 8, "accepted": 6,
        "corrections": 2, "bonuses": 2, "cut": 1, "histogram": [2, 1, 1, 1],
        "accepted_per_drafted": 6 / 12, "accepted_per_tested": 6 / 8, "tokens_per_round": 10 / 5,
        "prefill_seconds": 0.25, "decode_seconds": 2.5, "tokens_per_second": 4.0}
    check_counts(BY_HAND)


def test_a_ratio_over_nothing_is_none_and_never_nan():
    nothing = Generation([], gamma=4)
    plain = Generation([a_round([], 0, 7, "bonus", finish_reason="length")], gamma=0)
    in_both = {"accepted_per_drafted", "accepted_per_tested", "prefill_seconds"}
    for g, missing in ((nothing, in_both | {"tokens_per_round", "tokens_per_second"}),
                       (plain, in_both)):
        assert {name for name, value in g.stats().items() if value is None} == missing
        assert "NaN" not in json.dumps(g.stats())
        check_counts(g)
    assert (nothing.tokens, nothing.finish_reason, nothing.histogram) == ([], "length", [0] * 5)


def test_times_are_the_prefill_once_and_every_round():
    target, draft = HashModel(1, n_ctx=40), HashModel(2, n_ctx=40)
    for g in (autoregressive(target, [0, 1], 9, sampling=GREEDY),
              speculative_greedy(target, draft, [0, 1], 9, gamma=2)):
        assert g.rounds[0].prefill_seconds is not None
        assert all(r.prefill_seconds is None for r in g.rounds[1:])
        assert g.prefill_seconds >= 0 and all(r.seconds > 0 for r in g.rounds)
        assert g.decode_seconds == sum(r.seconds for r in g.rounds)
        assert g.tokens_per_second == g.new_tokens / g.decode_seconds
    # there is nothing to fill
    assert autoregressive(Uncached(target), [0, 1], 3).prefill_seconds is None


def test_the_prefills_time_is_not_the_first_rounds(monkeypatch):
    """By a clock on which reading n tokens takes n seconds."""
    clock = Clock(monkeypatch)
    target, draft = (Timed(HashModel(seed, n_ctx=40), clock, float) for seed in (1, 2))
    prompt = random_prompt(9, n_vocab=3)
    plain = autoregressive(target, prompt, 5)
    assert plain.prefill_seconds == 8 and [r.seconds for r in plain.rounds] == [1] * 5
    speculative = speculative_greedy(target, draft, prompt, 5, gamma=2)
    assert speculative.prefill_seconds == 2 * 8
    assert speculative.rounds[0].seconds == 1 + 1 + 3


def test_prompt_tokens_are_not_counted_as_new():
    for length in (1, 5, 20):
        prompt = random_prompt(length, n_vocab=3)
        target, draft = HashModel(1, n_ctx=40), HashModel(2, n_ctx=40)
        assert speculative_greedy(target, draft, prompt, 7).new_tokens == 7


def test_what_has_happened_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BY_HAND.rounds[0].accepted = 2
