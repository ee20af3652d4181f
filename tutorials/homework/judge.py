"""Judges a `speculative_sampling` that somebody wrote, by the proof of the project's own."""
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from decoding.proof import mistakes
from decoding.proof.distributions import PROMPT, Texts, by_definition, by_enumeration
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel
from decoding.sampling import GREEDY, UNCHANGED, Sampling
from tutorials.grading import UNANSWERED, Mistake, check, untouched
from tutorials.homework.speculative import speculative_sampling as blank_homework
from tutorials.homework.watching import Reader, RowsDrawnFrom
from tutorials.slips import SLIPS
from tutorials.tutor import RANDOMNESS, RULES, states, toy_seeds

THREE = "texts of three tokens"
FORGOT = " (the draft does not read its own last proposal after it was kept)"
Check = Callable[[Callable], str]  # -> "correct", "wrong" or "not answered yet"


def checks(seed: int | None = None) -> Iterator[tuple[str, Check]]:
    """Yield the name of each check, and the check. seed: of other toy models."""
    models = toy_seeds(seed)
    for name, judge in (("lengths", lengths), ("distribution", distribution),
                        ("impossible token", impossible_token), ("temperature", temperature),
                        ("passes of the target", passes), ("caches", caches)):
        yield name, functools.partial(answered, judge, models)


def answered(judge: Callable, models: tuple[int, int], function: Any) -> str:
    """Run one check, if there is something to check."""
    if untouched(function, blank_homework):
        print(UNANSWERED)
        return UNANSWERED
    return judge(models, function)


def texts(function: Callable, models: tuple[int, int], gamma: int, never: tuple[int, ...] = (),
          temperature: float = 1) -> Texts:
    """Return the exact distribution of the three tokens that a function writes."""
    before = states()

    def program(generator):
        written = function(HashModel(models[0], never=never), HashModel(models[1]), PROMPT, 3,
                           generator, gamma, temperature)
        return tuple(int(token) for token in written[len(PROMPT):])

    found = distribution_of(program)
    if states() != before:
        raise ValueError(RANDOMNESS)
    return found


def lengths(models: tuple[int, int], function: Callable) -> str:
    """Check how many tokens come out, and that the prompt stands in front of them."""
    def speculative_sampling(prompt, max_new_tokens, gamma):
        written = function(HashModel(models[0], n_ctx=64), HashModel(models[1], n_ctx=64),
                           list(prompt), max_new_tokens, torch.Generator().manual_seed(0), gamma)
        begins = [int(token) for token in written[:len(prompt)]] == prompt
        return f"{len(written)} tokens that {'' if begins else 'do not '}begin with the prompt"

    def truth(prompt, max_new_tokens, gamma):
        return f"{len(prompt) + max_new_tokens} tokens that begin with the prompt"

    cases = [(prompt, n, gamma) for prompt in ([0], [1, 2, 0]) for n in (0, 1, 2, 5, 20)
             for gamma in (0, 1, 4)]
    return check(speculative_sampling, truth, cases, at=lambda prompt, n, gamma:
                 f"prompt {prompt}, max_new_tokens = {n}, gamma = {gamma}")


def distribution(models: tuple[int, int], function: Callable) -> str:
    """Check the distribution of whole texts, by enumeration; known mistakes are named."""
    def speculative_sampling(gamma):
        return texts(function, models, gamma)

    def greedy_draft(gamma):
        draft = mistakes.TwoFacedDrafter(HashModel(models[1]), GREEDY, UNCHANGED)
        return by_enumeration(HashModel(models[0]), draft, 3, gamma)

    known = [mistake._replace(answer=lambda gamma, rule=mistake.answer: by_enumeration(
        HashModel(models[0]), HashModel(models[1]), 3, gamma, rule=rule))
        for mistake in RULES + SLIPS]
    known.append(Mistake(greedy_draft, "the draft proposes its favourite, and not a token drawn "
                         "from q", "3 Why the ratio needs the q that was really used"))
    return check(speculative_sampling, lambda gamma: by_definition(HashModel(models[0]), 3),
                 [(0,), (1,), (2,)], known=known, at=lambda gamma: f"{THREE}, gamma = {gamma}")


def impossible_token(models: tuple[int, int], function: Callable) -> str:
    """Check that a token of probability 0 is never written, not even if a u is exactly 0."""
    def impossible(found):
        return {text: probability for text, probability in found.items() if 2 in text}

    def with_token_2(gamma):
        return impossible(texts(function, models, gamma, never=(2,)))

    def less_or_equal(gamma):
        return impossible(by_enumeration(HashModel(models[0], never=(2,)), HashModel(models[1]), 3,
                                         gamma, rule=mistakes.less_or_equal))

    known = [mistake._replace(answer=less_or_equal) for mistake in RULES
             if mistake.answer is mistakes.less_or_equal]
    return check(with_token_2, lambda gamma: {}, [(1,), (2,)], known=known, at=lambda gamma:
                 f"{THREE}, of a target that never writes token 2, gamma = {gamma}")


def temperature(models: tuple[int, int], function: Callable) -> str:
    """Check that the temperature is used, for both models."""
    def speculative_sampling(temperature):
        return texts(function, models, 2, temperature=temperature)

    def truth(temperature):
        return by_definition(HashModel(models[0]), 3, Sampling(temperature))

    return check(speculative_sampling, truth, [(0.5,), (2.0,)],
                 at=lambda temperature: f"{THREE}, gamma = 2, temperature = {temperature}",
                 last=lambda: draft_at_another_temperature(models, function))


def draft_at_another_temperature(models: tuple[int, int], function: Callable) -> str:
    """Return a sentence if no token is drawn from the draft at temperature 0.5; else ""."""
    generator, draft = RowsDrawnFrom(), Reader(HashModel(models[1]))
    function(HashModel(models[0]), draft, PROMPT, 3, generator, 2, 0.5)
    wanted = (draft.model.row(tuple(PROMPT)) / 0.5).softmax(-1)
    right = any(torch.allclose(row / row.sum(), wanted) for row in generator.rows)
    if right or not draft.passes:  # that a draft is never asked is for `caches` to say
        return ""
    return ("the texts have the right distribution, but at temperature 0.5 no token is drawn from "
            "the draft at that temperature: it is the temperature of both models")


def passes(models: tuple[int, int], function: Callable) -> str:
    """Check that the target verifies a whole draft in one pass: with a draft that is always right.

    A pass for the prompt alone is allowed.
    """
    def speculative_sampling(new_tokens, gamma):
        target, draft = (Reader(HashModel(models[0], n_ctx=64)) for _ in models)
        written = function(target, draft, PROMPT, new_tokens, torch.Generator().manual_seed(0),
                           gamma)
        needed = 1 + -(-new_tokens // (gamma + 1))
        tokens = [int(token) for token in written]
        known = all(text[:len(tokens)] == tokens[:len(text)] for text in draft.texts)
        return (f"{len(tokens) - len(PROMPT)} tokens and {max(0, target.passes - needed)} passes "
                "of the target too many" + ("" if known else FORGOT))

    return check(speculative_sampling, lambda new_tokens, gamma:
                 f"{new_tokens} tokens and 0 passes of the target too many",
                 [(20, 4), (12, 1), (30, 9)], at=lambda new_tokens, gamma:
                 f"a draft that is always right, max_new_tokens = {new_tokens}, gamma = {gamma}")


def caches(models: tuple[int, int], function: Callable) -> str:
    """Check that no model reads again what its cache holds."""
    def speculative_sampling(model, gamma):
        readers = {name: Reader(HashModel(seed, n_ctx=64))
                   for name, seed in zip(("target", "draft"), models)}
        function(*readers.values(), PROMPT, 30, torch.Generator().manual_seed(0), gamma)
        reader = readers[model]
        return f"{reader.again} tokens read again" if reader.passes else "nothing read"

    return check(speculative_sampling, lambda model, gamma: "0 tokens read again",
                 [("target", 4), ("draft", 4), ("target", 1)],
                 at=lambda model, gamma: f"the {model}, gamma = {gamma}")
