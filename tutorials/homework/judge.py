"""Judges a `speculative_sampling` that somebody wrote, by the proof of the project's own."""
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from decoding.proof.distributions import PROMPT, Texts, by_definition, by_enumeration
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, Spy
from decoding.sampling import Sampling
from tutorials.grading import UNANSWERED, check, untouched
from tutorials.homework.speculative import speculative_sampling as blank_homework
from tutorials.tutor import RANDOMNESS, RULES, states

Check = Callable[[Callable], str]  # -> "correct", "wrong" or "not answered yet"


def checks(seed: int | None = None) -> Iterator[tuple[str, Check]]:
    """Yield the name of each check, and the check. seed: of other toy models."""
    models = (1, 2) if seed is None else (3 + 2 * seed, 4 + 2 * seed)
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
        return len(written), [int(token) for token in written[:len(prompt)]] == prompt

    cases = [(prompt, n, gamma) for prompt in ([0], [1, 2, 0]) for n in (0, 1, 2, 5, 20)
             for gamma in (0, 1, 4)]
    return check(speculative_sampling, lambda prompt, n, gamma: (len(prompt) + n, True), cases)


def distribution(models: tuple[int, int], function: Callable) -> str:
    """Check the distribution of whole texts, by enumeration; known mistakes are named."""
    def speculative_sampling(gamma):
        return texts(function, models, gamma)

    known = [mistake._replace(answer=lambda gamma, rule=mistake.answer: by_enumeration(
        HashModel(models[0]), HashModel(models[1]), 3, gamma, rule=rule)) for mistake in RULES]
    return check(speculative_sampling, lambda gamma: by_definition(HashModel(models[0]), 3),
                 [(0,), (1,), (2,)], known=known)


def impossible_token(models: tuple[int, int], function: Callable) -> str:
    """Check that a token of probability 0 is never written, not even if a u is exactly 0."""
    def writes_token_2(gamma):
        return any(2 in text for text in texts(function, models, gamma, never=(2,)))

    return check(writes_token_2, lambda gamma: False, [(1,), (2,)])


def temperature(models: tuple[int, int], function: Callable) -> str:
    """Check that the temperature is used, for both models."""
    def speculative_sampling(temperature):
        return texts(function, models, 2, temperature=temperature)

    def truth(temperature):
        return by_definition(HashModel(models[0]), 3, Sampling(temperature))

    return check(speculative_sampling, truth, [(0.5,), (2.0,)])


def passes(models: tuple[int, int], function: Callable) -> str:
    """Check that the target verifies a whole draft in one pass: with a draft that is always right.

    A pass for the prompt alone is allowed.
    """
    def tokens_and_passes_too_many(new_tokens, gamma):
        target = Spy(HashModel(models[0], n_ctx=64))
        written = function(target, HashModel(models[0], n_ctx=64), PROMPT, new_tokens,
                           torch.Generator().manual_seed(0), gamma)
        needed = 1 + -(-new_tokens // (gamma + 1))
        return len(written) - len(PROMPT), max(0, len(target.reads) - needed)

    return check(tokens_and_passes_too_many, lambda new_tokens, gamma: (new_tokens, 0),
                 [(20, 4), (12, 1), (30, 9)])


def caches(models: tuple[int, int], function: Callable) -> str:
    """Check that no model reads again what its cache holds."""
    def most_tokens_read_at_once(model, gamma):
        target, draft = (Spy(HashModel(seed, n_ctx=64)) for seed in models)
        function(target, draft, PROMPT, 30, torch.Generator().manual_seed(0), gamma)
        reads = (target if model == "target" else draft).reads[2:]  # the first ones are the prompt
        most = max((len(new) for _, new in reads), default=0)
        enough = gamma + 1 if model == "target" else 2  # after full acceptance a draft reads two
        return f"at most {enough}" if 0 < most <= enough else most

    def truth(model, gamma):
        return f"at most {gamma + 1 if model == 'target' else 2}"

    return check(most_tokens_read_at_once, truth, [("target", 4), ("draft", 4), ("target", 1)])
