"""Gamma from measured acceptance and measured cost, by a clock that the test moves."""
import json

import pytest
import torch

from decoding import (
    Sampling,
    autoregressive,
    observer,
    speculative_greedy,
    speculative_sampling,
)
from decoding.acceptance import accept_block, accept_sampled
from decoding.gamma import AdaptiveGamma, as_gamma
from decoding.proof.distributions import PROMPT, by_definition, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, Spy, tiny_pair
from decoding.random import draw
from decoding.result import Round
from tests.checks import check_run
from tests.commands import ask, write_pair


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(observer, "perf_counter", lambda: self.now)


class Timed(Spy):
    """A model whose forward over n tokens takes seconds(n) of the clock."""

    def __init__(self, model, clock, seconds):
        super().__init__(model)
        self.clock, self.seconds = clock, seconds

    def forward(self, tokens, cache=None, last=None):
        self.clock.now += self.seconds(tokens.shape[1])
        return super().forward(tokens, cache, last)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture(scope="module")
def pair():
    return tiny_pair()


def drafted(generation):
    return [len(r.drafted) for r in generation.rounds]


def imagine(gamma, rounds, accepted, draft=0.1, rest=lambda k, times: 1.0):
    """Ask for a gamma and answer with a round, again and again.

    accepted(i, k): how many of k are kept in round i.

    rest(k, times): seconds of all but drafting, when k tokens were drafted for the times-th time.
    """
    asked = []
    for i in range(rounds):
        k = gamma.choose()
        asked.append(k)
        n = accepted(i, k)
        seconds = k * draft + rest(k, asked.count(k))
        kind = "bonus" if n == k else "correction"
        gamma.learn(Round([0] * k, n, 0, kind, (0, 0), None, None, seconds,
                          phase_seconds={"draft": k * draft}))
    return asked


def test_expensive_verification_ends_at_gamma_0(clock, pair):
    # a block costs what its tokens cost one by one
    target = Timed(pair[0], clock, lambda n: 1.0 * n)
    draft = Timed(pair[0], clock, lambda n: 0.2)
    g = speculative_greedy(target, draft, [1], 150, gamma=AdaptiveGamma())
    # and as even a perfect draft loses, nothing is tried again
    assert drafted(g)[-100:] == [0] * 100
    assert g.accepted_per_tested == 1
    assert check_run(g, [1]).tokens == autoregressive(pair[0], [1], 150).tokens


def test_a_perfect_and_cheap_draft_ends_at_the_largest(clock, pair):
    g = speculative_greedy(Timed(pair[0], clock, lambda n: 1.0),
                           Timed(pair[0], clock, lambda n: 0.01), [1], 200, gamma=AdaptiveGamma())
    assert set(drafted(g)[6:-2]) == {8}
    assert g.gamma == 8 and len(g.histogram) == 9


def test_an_expensive_draft_ends_at_gamma_0(clock, pair):
    g = speculative_greedy(Timed(pair[0], clock, lambda n: 1.0),
                           Timed(pair[1], clock, lambda n: 1.1), [1], 150, gamma=AdaptiveGamma())
    assert drafted(g)[-60:] == [0] * 60


def test_in_between_it_finds_what_the_formula_finds():
    def keeps(i, k):
        return min(k, (0, 1, 2, 4, 9)[i % 5])

    asked = imagine(AdaptiveGamma(), 300, keeps, draft=0.15, rest=lambda k, _: 1 + 0.05 * k)
    settled = asked[-100:]
    # alpha is about .75, c .15, v 1 + .05 gamma: best by the formula is 3
    assert 2 <= sorted(settled)[50] <= 4


def test_it_comes_back_from_gamma_0_when_the_draft_gets_better():
    asked = imagine(AdaptiveGamma(), 400, lambda i, k: 0 if i < 200 else k)
    assert set(asked[100:200]) == {0, 1}  # it looks again now and then, at the least price
    # drafting took less than 5 % of the time
    assert sum(0.1 * k for k in asked[100:200]) < 0.05 * 100
    assert asked[-50:] == [8] * 50


def test_a_first_time_that_pays_for_set_up_is_not_believed():
    def slow_first(k, times):
        return 30.0 if times == 1 else 1.0

    assert imagine(AdaptiveGamma(), 100, lambda i, k: k, rest=slow_first)[-50:] == [8] * 50


def test_costs_that_change_are_measured_again():
    gamma = AdaptiveGamma()
    assert imagine(gamma, 80, lambda i, k: k)[-1] == 8
    assert imagine(gamma, 100, lambda i, k: k, rest=lambda k, _: 1.0 + k)[-20:] == [0] * 20


def test_its_maximum_and_its_first_rounds():
    asked = imagine(AdaptiveGamma(largest=3), 50, lambda i, k: k)
    assert asked[:4] == [0, 0, 3, 3] and max(asked) == 3


def test_each_call_starts_afresh(clock, pair):
    models = Timed(pair[0], clock, lambda n: 1.0), Timed(pair[1], clock, lambda n: 0.1)
    first, second = (drafted(speculative_greedy(*models, [1], 80, gamma=AdaptiveGamma()))
                     for _ in range(2))
    assert first == second and first[:4] == [0, 0, 4, 4] and len(set(first)) > 2


def test_sampled_text_obeys_the_counts(clock, pair):
    models = Timed(pair[0], clock, lambda n: 1.0), Timed(pair[1], clock, lambda n: 0.1)
    check_run(speculative_sampling(*models, [1, 2, 3], 100, gamma=AdaptiveGamma(),
                                   sampling=Sampling(0.8)), [1, 2, 3])


@pytest.mark.parametrize("rule, tokens", [(accept_sampled, [1, 1.8, 2.44, 2.952, 3.3616]),
                                          (accept_block, [1, 1.8, 2.48, 3.0896, 3.6368])])
def test_what_it_expects_of_either_rule(rule, tokens):
    """By the exact numbers of a pair without memory, of which it has seen rounds of any gamma."""
    p, q = torch.tensor([[0.6, 0.4]]).double(), torch.tensor([[0.8, 0.2]]).double()
    generator, gamma = torch.Generator().manual_seed(0), AdaptiveGamma()
    gamma.FADING = 1  # remember everything
    for k in 2000 * [2, 4, 8]:
        drafted = draw(q.expand(k, 2), generator)
        n = rule(drafted, q.expand(k, 2), p.expand(k + 1, 2), generator).n.item()
        kind = "bonus" if n == k else "correction"
        gamma.learn(Round([0] * k, n, 0, kind, (0, 0), None, None, 1.0,
                          phase_seconds={"draft": 1.0}))
    assert [gamma.tokens_per_round(k) for k in range(5)] == pytest.approx(tokens, abs=0.04)


class AsManyAsWereKept:
    """A gamma that follows the past as closely as one can: one more than was accepted last time."""

    largest, next = 2, 1

    def choose(self):
        return min(self.largest, self.next)

    def learn(self, round):
        self.next = round.accepted + (round.kind == "bonus")


def test_a_gamma_that_depends_on_past_rounds_keeps_the_targets_distribution():
    target, draft = HashModel(1), HashModel(2)

    def program(generator):
        run = speculative_sampling(target, draft, PROMPT, 4, gamma=AsManyAsWereKept(),
                                   generator=generator)
        return tuple(run.tokens)
    assert difference(distribution_of(program), by_definition(target, 4)) < 1e-12


def test_what_gamma_may_be():
    assert as_gamma(3).choose() == as_gamma(3).largest == 3
    own = AsManyAsWereKept()
    assert as_gamma(own) is own
    for wrong in (-1, "auto", "5", 2.5, None):
        with pytest.raises(ValueError, match="gamma must be"):
            as_gamma(wrong)


def test_the_command_line_takes_auto(tmp_path, capsys):
    answer = ask(capsys, *write_pair(tmp_path), "--gamma", "auto", "--max-new-tokens", 40, "--json",
                 "--ignore-eos", "Once")
    result = json.loads(answer.out)
    assert result["settings"]["gamma"] == "auto" and result["identical"]
    assert len(result["speculative"]["stats"]["histogram"]) == 9
