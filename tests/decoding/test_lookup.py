"""Prompt lookup: what it proposes, and that it changes the speed of a run and nothing else."""
import random

import pytest
import torch

from decoding import GREEDY, Sampling, autoregressive, speculative_greedy
from decoding.drafters.lookup import LookupDrafter, continuation
from decoding.proof.distributions import by_definition, by_enumeration, difference
from decoding.proof.toys import HashModel


def test_it_copies_what_followed_the_latest_match_of_the_longest_ending():
    # not 9, which followed an earlier match
    assert continuation([1, 2, 3, 9, 5, 2, 3, 7, 8, 2, 3], 2, 2) == [7, 8]
    # "2 3" is found, so the later "3" does not count
    assert continuation([1, 2, 3, 9, 4, 3, 5, 2, 3], 2, 1) == [9]
    # "6 3" is nowhere before, so the last "3" does
    assert continuation([1, 2, 3, 9, 4, 3, 5, 6, 3], 2, 1) == [5]


def test_nothing_is_proposed_where_nothing_matches():
    assert continuation([1, 2, 3], 3, 4) == []
    assert continuation([1], 3, 4) == []


def test_a_loop_is_continued_as_a_loop():
    assert continuation([7, 1, 2, 1, 2], 3, 5) == [1, 2, 1, 2, 1]
    assert continuation([4, 4], 3, 3) == [4, 4, 4]


def test_it_is_the_obvious_search_on_random_texts():
    rng = random.Random(0)
    for _ in range(300):
        text = [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
        n = rng.randrange(1, 5)
        expected = []
        for length in range(min(n, len(text) - 1), 0, -1):
            ends = [end for end in range(length, len(text))
                    if text[end - length : end] == text[-length:]]
            if ends:
                copied = list(text)
                for i in range(6):
                    copied.append(copied[ends[-1] + i])
                expected = copied[len(text):]
                break
        assert continuation(text, n, 6) == expected, (text, n)


def test_greedy_ids_are_the_plain_loops():
    target, prompt = HashModel(1, n_vocab=4, n_ctx=40), [0, 1, 2, 0, 1]
    expected = autoregressive(target, prompt, 30)
    for gamma in range(5):
        run = speculative_greedy(target, LookupDrafter(4), prompt, 30, gamma=gamma)
        assert run.tokens == expected.tokens
        assert gamma == 0 or run.accepted > 0


def test_its_certainty_is_a_q_that_keeps_the_distribution():
    target = HashModel(1)
    for sampling in (Sampling(), Sampling(0.7, top_p=0.8), GREEDY):
        found = by_enumeration(target, LookupDrafter(3), 3, 2, sampling)
        assert difference(found, by_definition(target, 3, sampling)) < 1e-12


@pytest.mark.parametrize("ids, q, words", [
    ([1, 2], torch.ones(2, 3), "must propose a tensor of token ids"),
    (torch.ones(2), torch.ones(2, 3), "must propose a tensor of token ids"),
    (torch.ones(1, 2, dtype=torch.long), torch.ones(2, 3), "must propose a tensor of token ids"),
    (torch.ones(4, dtype=torch.long), torch.ones(4, 3), "proposed 4 tokens; at most 3"),
    (torch.ones(2, dtype=torch.long), torch.ones(1, 3),
     r"the shape \(1, 3\); 2 tokens need \(2, 3\)"),
])
def test_what_a_drafter_of_ones_own_gets_wrong_is_said_in_one_line(ids, q, words):
    class Mine(LookupDrafter):
        def propose(self, tokens, k, sampling, generator):
            return ids, q

    with pytest.raises(ValueError, match=words):
        speculative_greedy(HashModel(1), Mine(3), [0, 1], 9, gamma=3)


def test_a_drafter_may_do_with_the_text_what_it_likes():
    class Scribbler(LookupDrafter):
        def propose(self, tokens, k, sampling, generator):
            ids = continuation(tokens, self.n, k)
            tokens += ids
            return super().propose(tokens[:len(tokens) - len(ids)], k, sampling, generator)

    target, prompt = HashModel(1, n_ctx=40), [0, 1, 2, 0, 1]
    plain = autoregressive(target, prompt, 25).tokens
    assert speculative_greedy(target, Scribbler(3), prompt, 25).tokens == plain
