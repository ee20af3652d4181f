"""Are the first two tokens after a prompt spread as the target says?

The bundled pair, real caches and real random numbers. Far weaker than the enumeration in
test_distribution.py, but here nothing is replaced. The seed is fixed; of a hundred thousand seeds a
correct program would fail with one.
"""
from collections import Counter

import pytest
import torch

from decoding import GREEDY, Sampling, speculative_rounds
from decoding.acceptance import accept_sampled
from decoding.proof import mistakes
from decoding.proof.reference import chi_square_p_value, plain_probs
from weights import load_model, load_tokenizer

LIMIT = 1e-5
FOUR = Sampling(1.2, top_k=4)  # so few that all that can happen happens often enough to be counted


@pytest.fixture(scope="module")
def pair():
    prompt = load_tokenizer("tales-large").encode("The king said to")
    return load_model("tales-large"), load_model("tales-small"), prompt


def first_tokens(pair, n, generator):
    """The first n tokens of a run that drafts n of them."""
    target, draft, prompt = pair
    new = []
    for r in speculative_rounds(target, draft, prompt, n + 1, gamma=n, rule=accept_sampled,
                                sampling=FOUR, generator=generator):
        new += r.emitted
        if len(new) >= n:
            return tuple(new[:n])


def likely_texts(pair, n, at_least):
    """{text: probability} of all texts of n tokens that are at least so probable.

    From the target's logits, without a cache.
    """
    target, _, prompt = pair
    texts = {(): 1.0}
    for _ in range(n):
        logits = target(torch.tensor([[*prompt, *text] for text in texts]), last=1)[:, 0]
        texts = {(*text, token): probability * chance
                 for (text, probability), row in zip(texts.items(), logits.tolist())
                 for token, chance in enumerate(plain_probs(row, FOUR))
                 if probability * chance >= at_least}
    return texts


def p_value(pair, n, runs, seed=0):
    generator = torch.Generator().manual_seed(seed)
    counts = Counter(first_tokens(pair, n, generator) for _ in range(runs))
    texts = likely_texts(pair, n, at_least=5 / runs)  # so that each is expected at least five times
    found = [counts[text] for text in texts]
    expected = [runs * probability for probability in texts.values()]
    rest = runs - sum(expected)
    # all other texts together are expected too rarely: they are counted with the last one
    if rest < 5:
        rest, found = rest + expected.pop(), found[:-1]
    return chi_square_p_value([*found, runs - sum(found)], [*expected, rest])


@pytest.mark.slow
def test_the_first_two_tokens_are_spread_as_the_target_says(pair):
    assert p_value(pair, n=2, runs=150) > LIMIT


@pytest.mark.slow
def test_the_same_test_notices_a_greedy_draft_with_a_soft_q(pair):
    target, draft, prompt = pair
    assert p_value((target, mistakes.TwoFacedDrafter(draft, drawn=GREEDY, reported=FOUR), prompt),
                   n=1, runs=80) < LIMIT


def test_p_values_are_those_of_the_tables():
    for degrees, statistic, p in ((1, 3.841459, 0.05), (1, 6.634897, 0.01), (4, 9.487729, 0.05),
                                  (10, 29.588298, 0.001)):
        away = (50 * statistic) ** 0.5
        counts = [100 + away, 100 - away, *[100] * (degrees - 1)]
        assert chi_square_p_value(counts, [100] * (degrees + 1)) == pytest.approx(p, rel=1e-4)
