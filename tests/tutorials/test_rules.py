"""The exercises about the whole rule: right ones pass however they are written; wrong ones do not,
and each of the museum is told which one it is."""
import inspect
import random
import re

import numpy
import pytest
import torch

from decoding.acceptance import Acceptance, accept_block, accept_sampled, leading, residual
from decoding.proof import mistakes, more_mistakes
from decoding.random import draw, uniform
from tests.tutorials.right_rules import RIGHT_RULES
from tutorials import tutor
from tutorials.exercises import e03, e06
from tutorials.grading import CORRECT, WRONG, sentence
from tutorials.slips import SLIPS


def test_there_are_more_than_twenty():
    assert len(RIGHT_RULES) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("rule", RIGHT_RULES, ids=lambda rule: rule.__name__)
def test_a_right_rule_passes_however_it_is_written(rule, capsys):
    assert e03.check_my_rule(rule) == CORRECT, capsys.readouterr().out


def test_the_other_exercise_about_a_rule_is_checked_in_the_same_way(capsys):
    assert e06.check_repaired_rule(RIGHT_RULES[0]) == CORRECT
    assert e06.check_repaired_rule(mistakes.less_or_equal) == WRONG
    assert "if p = 0 and u = 0" in capsys.readouterr().out


def name_of(rule):
    return getattr(rule, "__name__", type(rule).__name__)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", tutor.RULES, ids=lambda mistake: name_of(mistake.answer))
def test_a_rule_of_the_museum_is_told_which_one_it_is(mistake, capsys):
    assert e03.check_my_rule(mistake.answer) == WRONG
    assert capsys.readouterr().out == f"wrong: {sentence(mistake)}\n"


@pytest.mark.slow
@pytest.mark.parametrize("mistake", SLIPS, ids=lambda mistake: mistake.words[:40])
def test_a_slip_is_told_which_one_it_is(mistake, capsys):
    assert e03.check_my_rule(mistake.answer) == WRONG
    assert capsys.readouterr().out == f"wrong: {sentence(mistake)}\n"


@pytest.mark.parametrize("rule", [
    lambda drafted, q, p, generator: Acceptance(torch.tensor([0]), draw(p[:1], generator)),
    lambda drafted, q, p, generator: accept_sampled(drafted[:1], q[:1], p[:2], generator)])
def test_a_rule_that_keeps_too_few_is_told_so_though_its_texts_are_right(rule, capsys):
    assert e03.check_my_rule(rule) == WRONG
    text = capsys.readouterr().out
    assert "the right distribution, but of two drafted tokens your rule keeps" in text
    assert text.count("\n") == 1


def test_a_rule_that_keeps_more_is_right(capsys):
    assert e03.check_my_rule(accept_block) == CORRECT


def test_texts_that_are_wrong_are_said_in_words(capsys):
    def rule(drafted, q, p, generator):
        return Acceptance(torch.tensor([0]), draw(torch.ones(1, 3), generator))

    assert e03.check_my_rule(rule) == WRONG
    text = capsys.readouterr().out
    assert re.fullmatch(r"wrong: texts of three tokens, gamma = 0: the text \(\d, \d, \d\) came "
                        r"out with probability 0\.037 instead of 0\.\d+\n", text), text


def test_every_rule_of_the_museum_is_known_and_has_its_own_sentence():
    rules = {name for module in (mistakes, more_mistakes)
             for name, function in inspect.getmembers(module, inspect.isfunction)
             if function.__module__ == module.__name__
             and list(inspect.signature(function).parameters)[:4]
             == ["drafted", "q", "p", "generator"]}
    assert {"redraw_from_p", "typical_acceptance"} <= rules
    known = {name_of(mistake.answer) for mistake in tutor.RULES}
    assert known == {*rules, "OneNumberForEveryRound"}
    assert len({mistake.words for mistake in tutor.RULES}) == len(tutor.RULES)


def with_test(test):
    """A rule that is right but for its test: test(u, ratio) -> bools."""
    def rule(drafted, q, p, generator):
        i = torch.arange(len(drafted))
        u = uniform((len(drafted),), generator, p.device)
        n = leading(test(u, p[i, drafted] / q[i, drafted]))
        row = p[n] if n == len(drafted) else residual(p[n], q[n])
        return Acceptance(n, draw(row, generator))
    return rule


@pytest.mark.parametrize("test", [
    lambda u, ratio: u <= ratio, lambda u, ratio: ratio >= u, lambda u, ratio: ~(u > ratio),
    lambda u, ratio: 1 - u >= 1 - ratio, lambda u, ratio: u.log() <= ratio.log()])
def test_less_or_equal_is_caught_however_it_is_written(test, capsys):
    assert e03.check_my_rule(with_test(test)) == WRONG
    assert "if p = 0 and u = 0" in capsys.readouterr().out


@pytest.mark.parametrize("test", [
    lambda u, ratio: -u.log() > -ratio.log(), lambda u, ratio: u.log().log() < ratio,
    lambda u, ratio: u.log() < u, lambda u, ratio: u.log() < u.log(),
    lambda u, ratio: float(u) < ratio, lambda u, ratio: u < u.flip(0),
    lambda u, ratio: u**2 < ratio, lambda u, ratio: u < 2 * u, lambda u, ratio: 1 / u > 1 / ratio,
    lambda u, ratio: ratio.log() - u.log() > 0, lambda u, ratio: ratio.clone().sub_(u) > 0,
    lambda u, ratio: torch.lt(input=u, other=ratio),
    lambda u, ratio: torch.minimum(u, ratio) < ratio,
    lambda u, ratio: torch.tensor([0 if x else 1 for x in [u]]),
    lambda u, ratio: torch.from_numpy(numpy.array(u)) < ratio])
def test_what_cannot_be_followed_is_said_in_one_sentence(test, capsys):
    assert e03.check_my_rule(with_test(test)) == WRONG
    text = capsys.readouterr().out
    assert text.startswith("wrong: the check ") and text.count("\n") == 1
    assert "as in u < p / q" in text


@pytest.mark.parametrize("source", [
    lambda k, generator: torch.rand(k), lambda k, generator: torch.rand(k, generator=generator),
    lambda k, generator: torch.tensor([random.random() for _ in range(k)]),
    lambda k, generator: torch.from_numpy(numpy.random.rand(k))])
def test_other_randomness_is_sent_to_uniform_and_draw(source, capsys):
    def rule(drafted, q, p, generator):
        i = torch.arange(len(drafted))
        n = leading(source(len(drafted), generator) < p[i, drafted] / q[i, drafted])
        row = p[n] if n == len(drafted) else residual(p[n], q[n])
        return Acceptance(n, draw(row, generator))

    assert e03.check_my_rule(rule) == WRONG
    assert capsys.readouterr().out == f"wrong: {tutor.RANDOMNESS}\n"


def test_multinomial_is_sent_to_draw(capsys):
    def rule(drafted, q, p, generator):
        n = leading(uniform((len(drafted),), generator, p.device) < 1)
        return Acceptance(n, torch.multinomial(p[n[0]], 1))

    assert e03.check_my_rule(rule) == WRONG
    assert capsys.readouterr().out == f"wrong: {tutor.RANDOMNESS}\n"


def test_a_verdict_of_the_wrong_kind_is_said_so(capsys):
    answers = {"Acceptance(n, token)": lambda *_: (1, 2),
               "n should be a tensor": lambda *_: Acceptance(0, torch.zeros(1)),
               "token should be a tensor of the shape (1,), but has the shape ()":
               lambda *_: Acceptance(torch.zeros(1), torch.tensor(2))}
    for words, rule in answers.items():
        assert e03.check_my_rule(rule) == WRONG
        text = capsys.readouterr().out
        assert words in text and "expected" not in text, text
