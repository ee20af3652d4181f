"""Checks of notebook 2.

The truth is the project's own rule, and what the real loop did with a small pair of models.
"""
import torch
import torch.nn.functional as F

from decoding import GREEDY, speculative_greedy, speculative_rounds
from decoding.acceptance import accept_greedy
from decoding.proof.toys import HashModel, random_prompt, tiny_pair
from tutorials.grading import check

CASES = [([5, 3, 8], [5, 3, 8, 1]), ([5, 3, 8], [5, 4, 8, 1]), ([5, 3, 8], [2, 3, 8, 1]), ([], [7]),
         ([4], [4, 4]), ([5, 3, 8, 8], [5, 3, 9, 8, 8])]


def check_kept(answer) -> str:
    return check(answer, lambda drafted, choices: verdict(drafted, choices)[0], CASES)


def check_emitted(answer) -> str:
    def truth(drafted, choices):
        n, token = verdict(drafted, choices)
        return [*drafted[:n], token]

    return check(answer, truth, CASES)


def check_cache_lengths(answer) -> str:
    seen = lengths_of_the_loop()
    return check(answer, lambda L, k, n: seen[L, k, n], sorted(seen))


def check_rounds_of_a_perfect_draft(answer) -> str:
    model = HashModel(1, n_ctx=64)

    def truth(new_tokens, gamma):
        return len(speculative_greedy(model, model, [0, 1], new_tokens, gamma=gamma).rounds)

    return check(answer, truth, [(n, gamma) for n in (1, 4, 5, 6, 30) for gamma in (0, 1, 4)])


def verdict(drafted, choices):
    """Return what `accept_greedy` makes of a draft: how many are kept, and the token after them."""
    ids = torch.tensor(drafted, dtype=torch.long)
    p, q = (F.one_hot(rows, 10).float() for rows in (torch.tensor(choices), ids))
    n, token, *_ = accept_greedy(ids, q, p, torch.Generator())
    return n.item(), token.item()


def lengths_of_the_loop():
    """Return {(L, k, n): cache lengths} of the rounds of one run.

    L tokens before the round, k drafted, n of them kept.
    """
    (target, draft), text = tiny_pair(), random_prompt(6)
    seen: dict[tuple[int, int, int], list[int]] = {}
    for round in speculative_rounds(target, draft, list(text), 60, gamma=3, rule=accept_greedy,
                                    sampling=GREEDY):
        if round.drafted:
            lengths = [*round.target_cache, *(round.draft_cache or ())]
            seen[len(text), len(round.drafted), round.accepted] = lengths
        text += round.emitted
    assert {0, 1, 3} <= {n for _, k, n in seen if k == 3}
    return seen
