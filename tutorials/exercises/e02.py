"""Checks of notebook 2.

The truth is the project's own rule, and what the real loop did with a small pair of models.
"""
import torch
import torch.nn.functional as F

from decoding import GREEDY, speculative_greedy, speculative_rounds
from decoding.acceptance import accept_greedy
from decoding.proof.toys import HashModel, random_prompt, tiny_pair
from decoding.theory import expected_speedup, expected_tokens_per_round
from tutorials.grading import Mistake, check, fresh

CASES = [([5, 3, 8], [5, 3, 8, 1]), ([5, 3, 8], [5, 4, 8, 1]), ([5, 3, 8], [2, 3, 8, 1]), ([], [7]),
         ([4], [4, 4]), ([5, 3, 8, 8], [5, 3, 9, 8, 8])]
ROUND, CACHES, COST = "2 One round", "2 The two caches", "2 What must a round bring?"


def more(rng):
    """Return a draft and choices that agree on a few tokens."""
    k = rng.randint(1, 5)
    choices = [rng.randint(0, 9) for _ in range(k + 1)]
    return [x if rng.random() < 0.7 else rng.randint(0, 9) for x in choices[:k]], choices


def check_kept(answer, seed=None) -> str:
    known = [Mistake(lambda drafted, choices: sum(a == b for a, b in zip(drafted, choices)),
                     "tokens are counted that agree after the first difference: they follow a "
                     "token that is not in the text", ROUND),
             Mistake(lambda drafted, choices: verdict(drafted, choices)[0] + 1,
                     "the target's own token is counted, too", ROUND)]
    return check(answer, lambda drafted, choices: verdict(drafted, choices)[0],
                 CASES + fresh(seed, more), known=known)


def check_emitted(answer, seed=None) -> str:
    def truth(drafted, choices):
        n, token = verdict(drafted, choices)
        return [*drafted[:n], token]

    def without_bonus(drafted, choices):
        return truth(drafted, choices)[:len(drafted)]

    known = [Mistake(without_bonus, "the bonus is forgotten: when all are kept, the target adds a "
                     "token, too", ROUND),
             Mistake(lambda drafted, choices: drafted[:verdict(drafted, choices)[0]],
                     "the target's own token is forgotten", ROUND),
             Mistake(lambda drafted, choices: [*drafted[:verdict(drafted, choices)[0] + 1],
                                               verdict(drafted, choices)[1]],
                     "the rejected token stays: the target's own stands in its place", ROUND),
             Mistake(lambda drafted, choices: drafted[:verdict(drafted, choices)[0] + 1],
                     "the rejected token stays in place of the target's own", ROUND),
             Mistake(lambda drafted, choices: choices, "all choices are written, also those after "
                     "a token that was rejected", ROUND)]
    return check(answer, truth, CASES + fresh(seed, more), known=known)


def check_cache_lengths(answer, seed=None) -> str:
    seen = lengths_of_the_loop(seed)
    known = [Mistake(lambda L, k, n: [L + k, L + n, L + k, L + n], "the draft has read its own "
                     "last proposal: nobody fed it", CACHES),
             Mistake(lambda L, k, n: [L + k, L + n + 1, L + k - 1, min(L + k - 1, L + n + 1)],
                     "the caches keep the token that was just added: it was never read", CACHES),
             Mistake(lambda L, k, n: [L + k, L + n, L + k - 1, L + n], "the rewind makes a cache "
                     "longer: after full acceptance the draft's is one short", CACHES),
             Mistake(lambda L, k, n: [L - n - 1 + k, L - 1, L - n - 2 + k,
                                      min(L - n - 2 + k, L - 1)], "L is taken for the length of "
                     "the text after the round: it is the one before", CACHES)]
    return check(answer, lambda L, k, n: seen[L, k, n], sorted(seen), known=known)


def check_rounds_of_a_perfect_draft(answer, seed=None) -> str:
    model = HashModel(1, n_ctx=64)

    def truth(new_tokens, gamma):
        return len(speculative_greedy(model, model, [0, 1], new_tokens, gamma=gamma).rounds)

    cases = [(n, gamma) for n in (1, 4, 5, 6, 30) for gamma in (0, 1, 4)]
    cases += fresh(seed, lambda rng: (rng.randint(1, 50), rng.randint(0, 7)))
    known = [Mistake(lambda new, gamma: -(-new // max(gamma, 1)), "the bonus is forgotten: a round "
                     "gives gamma + 1 tokens", ROUND),
             Mistake(lambda new, gamma: new // (gamma + 1), "the quotient is rounded down: what is "
                     "left over takes a round, too", ROUND),
             Mistake(lambda new, gamma: new / (gamma + 1), "the quotient is not rounded up: what "
                     "is left over takes a round, too", ROUND)]
    return check(answer, truth, cases, known=known)


def verdict(drafted, choices):
    """Return what `accept_greedy` makes of a draft: how many are kept, and the token after them."""
    ids = torch.tensor(drafted, dtype=torch.long)
    p, q = (F.one_hot(rows, 10).float() for rows in (torch.tensor(choices), ids))
    n, token, *_ = accept_greedy(ids, q, p, torch.Generator())
    return n.item(), token.item()


def lengths_of_the_loop(seed):
    """Return {(L, k, n): cache lengths} of the rounds of one run.

    L tokens before the round, k drafted, n of them kept. Another seed, another prompt.
    """
    (target, draft), text = tiny_pair(), random_prompt(6 + (seed or 0) % 50)
    seen: dict[tuple[int, int, int], list[int]] = {}
    for round in speculative_rounds(target, draft, list(text), 60, gamma=3, rule=accept_greedy,
                                    sampling=GREEDY):
        if round.drafted:
            lengths = [*round.target_cache, *(round.draft_cache or ())]
            seen[len(text), len(round.drafted), round.accepted] = lengths
        text += round.emitted
    assert seed is not None or {0, 1, 3} <= {n for _, k, n in seen if k == 3}
    return seen


def check_break_even(answer, seed=None) -> str:
    def truth(gamma, c, v):  # tokens per round, over the speed-up they give, is the cost of a round
        return expected_tokens_per_round(0.5, gamma) / expected_speedup(0.5, gamma, c, v)

    cases = [(4, 0.1, 1.0), (4, 0.1, 1.5), (7, 0.25, 1.2), (0, 0.1, 1.0)]
    cases += fresh(seed, lambda rng: (rng.randint(0, 9), rng.random(), 1 + rng.random()))
    known = [Mistake(lambda gamma, c, v: gamma * c + 1, "verifying is taken for one step, v = 1",
                     COST),
             Mistake(lambda gamma, c, v: gamma * c, "verifying is free", COST),
             Mistake(lambda gamma, c, v: gamma * (c + v), "each drafted token is verified by a "
                     "pass of its own", COST)]
    return check(answer, truth, cases, known=known)
