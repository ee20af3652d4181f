"""Checks of notebook 13. The truth is the project's own masks, positions and rules, enumerated."""
from collections.abc import Callable

import torch

from decoding.drafters.tree import TEXT, Tree, candidates
from decoding.proof import mistakes_of_trees
from decoding.proof.enumerate import distribution_of
from decoding.sampling import UNCHANGED
from decoding.walks import walk, walk_drawn
from model.batch_cache import BatchCache, BatchSlots
from model.kv_cache import KVCache
from model.tree import tree_place
from tutorials.comparing import kind
from tutorials.exercises.e03 import CASES
from tutorials.grading import Mistake, check, dice, die, fresh

TREES = [[-1, 0, 1], [-1, 0, 1, -1, 0], [-1, -1, 0, 0, 1, 1], [-1, 0, -1, 2, 2, 4], [-1]]
MASK, RULE, CHOSEN, BATCH, ENDS = (
    "13 One pass, many branches: mask and positions", "13 Which branch stays?",
    "13 Drawn, or chosen?", "13 Several texts: a cache with lengths", "13 Where it ends")


def check_who_sees_whom(answer, seed=None) -> str:
    def truth(parents):
        return (tree_place(parents, 0).mask == 0).double()

    def wrong(make):
        def sees(parents):
            rows = torch.zeros(len(parents), len(parents), dtype=torch.float64)
            for i, parent in enumerate(parents):
                rows[i] = make(rows, i, parent)
            return rows
        return sees

    def self_and_parent(rows, i, parent):
        row = torch.eye(len(rows)).double()[i]
        row[parent] += parent >= 0
        return row

    known = [Mistake(wrong(lambda rows, i, parent: (torch.arange(len(rows)) <= i).double()),
                     "every token sees all that were drafted before it: that is a chain, and here "
                     "other branches are among them", MASK),
             Mistake(wrong(self_and_parent), "the parent is seen, and its ancestors are not", MASK),
             Mistake(lambda parents: truth(parents) - torch.eye(len(parents)), "a token does not "
                     "see itself", MASK)]

    def who_sees_whom(parents):
        return as_numbers(answer(parents))

    return check(who_sees_whom, truth, [(parents,) for parents in TREES]
                 + fresh(seed, some_parents), known=known, of=answer)


def as_numbers(value):
    """Return a tensor or a list of True and False as ones and zeros."""
    if isinstance(value, list):
        value = torch.tensor(value)
    return value.double() if isinstance(value, torch.Tensor) else value


def some_parents(rng) -> tuple:
    return [-1, 0, -1, 0] + [rng.randrange(-1, i) for i in range(4, rng.randint(5, 8))],


def check_where_they_stand(answer, seed=None) -> str:
    def truth(parents, start):
        return tree_place(parents, start).positions.tolist()

    cases = [(parents, start) for parents in TREES for start in (0, 5)]
    known = [Mistake(lambda parents, start: [start + i for i in range(len(parents))], "the tokens "
                     "stand one after the other: siblings share a position", MASK),
             Mistake(lambda parents, start: [one + 1 for one in truth(parents, start)],
                     "the first token stands one position after the text's end: with `start` "
                     "tokens before it, the position is `start`", MASK),
             Mistake(lambda parents, start: [one - start for one in truth(parents, start)],
                     "the text before the tree is forgotten", MASK)]
    return check(answer, truth, cases + fresh(seed, lambda rng: (*some_parents(rng), 3)),
                 known=known)


def one_place(ids, p, q) -> tuple[Tree, torch.Tensor]:
    """Return candidates for one position as a tree, and its rows of p: sure of what follows."""
    tree = Tree(ids, q.expand(len(ids), -1), [TEXT] * len(ids))
    sure = torch.eye(len(p), dtype=p.dtype)[:1].expand(len(ids), -1)
    return tree, torch.cat([p[None], sure])


def chance_of_two(rule: Callable) -> Callable:
    """Return a function of p and q: the chance that one of two drawn candidates is kept."""
    def chance(p, q):
        def program(generator):
            tree, rows = one_place(candidates(q, 2, UNCHANGED, generator), p, q)
            return bool(rule(tree, rows, generator).path)
        return distribution_of(program).get(True, 0.0)
    return chance


def check_chance_of_two_candidates(answer, seed=None) -> str:
    wrong = mistakes_of_trees
    known = [Mistake(chance_of_two(wrong.p_unchanged), "the second candidate meets the same p, "
                     "although a rejection has shown something", RULE),
             Mistake(chance_of_two(wrong.q_not_renormalised), "the second candidate meets the same "
                     "q, although it was drawn from what the first one left of it", RULE),
             Mistake(lambda p, q: 1 - (1 - torch.minimum(p, q).sum()) ** 2, "the two tests are "
                     "taken for independent ones with the same chance", RULE),
             Mistake(lambda p, q: torch.minimum(p, q).sum(), "the second candidate is forgotten",
                     RULE),
             Mistake(lambda p, q: mistakes_of_trees.chance_of_chosen(p[None], q[None], 2)[0],
                     "the two likeliest candidates are taken in place of drawn ones", CHOSEN)]
    return check(answer, chance_of_two(walk_drawn), CASES + fresh(seed, dice), known=known)


def token_of(rule: Callable) -> Callable:
    """Return a function of candidates, p and q: the distribution of the token that comes out."""
    def tokens(ids, p, q):
        def program(generator):
            tree, rows = one_place(ids, p, q)
            path, token, _ = rule(tree, rows, generator)
            return ids[path[0]].item() if path else token
        return distribution_of(program)
    return tokens


def check_token_of_a_place(answer, seed=None) -> str:
    def token_of_a_place(ids, p, q):
        return distribution_of(lambda generator: as_token(answer(ids, p, q, generator)))

    def more(rng):
        ids = rng.sample(range(4), 3)
        return torch.tensor(ids), die(rng, 4), die(rng, 4)

    p, q = CASES[0]
    cases = [(torch.tensor(ids), p, q) for ids in ([1, 0], [3, 1], [1, 3, 0], [1], [3, 1, 2])]
    cases += [(torch.tensor([1, 3, 2]), p, torch.tensor([0.1, 0.4, 0.1, 0.4]).double())]
    wrong = mistakes_of_trees
    known = [Mistake(token_of(rule), words, see) for rule, words, see in (
        (wrong.p_unchanged, "p stays as it was after a rejection", RULE),
        (wrong.q_not_renormalised, "q stays as it was, although the next candidate was drawn from "
         "what x leaves of it", RULE),
        (wrong.compare_with_the_first_q, "u is compared with p/q of the first q", RULE),
        (wrong.last_from_the_first_p, "the token after the last rejection is drawn from the first "
         "p, not from what is left", RULE),
        (walk, "a token of the target's is drawn and looked for among the candidates: that is "
         "right for chosen ones, and drawn ones are kept more often", CHOSEN))]
    return check(token_of_a_place, token_of(walk_drawn), cases + fresh(seed, more),
                 known=known, of=answer)


def as_token(value):
    """Return a token, which may be a tensor with one id, as an int."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return int(value)
    if not isinstance(value, int):
        raise TypeError(f"returns {kind(value)}, not one token")
    return value


def check_visible_columns(answer, seed=None) -> str:
    def truth(lengths, T):
        cache = BatchCache(KVCache(1, 1, 1, max(lengths) + T, batch=len(lengths)))
        cache.add(len(lengths))
        cache.lengths = list(lengths)
        return (BatchSlots(cache, T, 0).mask[:, 0] == 0).double()  # (B, T, S)

    def padded(lengths, T):
        return truth([max(lengths)] * len(lengths), T)

    def no_time(lengths, T):
        columns = torch.arange(max(lengths) + T)
        return torch.stack([(columns < length + T).double().expand(T, -1) for length in lengths])

    def more(rng):
        return [rng.randint(0, 6) for _ in range(rng.randint(2, 4))] + [7], rng.randint(2, 4)

    cases = [([2, 4], 2), ([0, 3, 1], 1), ([5], 3), ([1, 1], 2), ([4, 0, 2], 3)]
    known = [Mistake(padded, "every text is taken for as long as the longest: its own tokens would "
                     "stand elsewhere, and it would look at nothing that is its own", BATCH),
             Mistake(no_time, "a token sees the new ones after it, too", BATCH),
             Mistake(lambda lengths, T: truth([max(0, n - 1) for n in lengths], T), "a token does "
                     "not see itself", BATCH)]

    def visible_columns(lengths, T):
        return as_numbers(answer(lengths, T))

    return check(visible_columns, truth, cases + fresh(seed, more), known=known, of=answer)


def check_speedup_of_a_batch(answer, seed=None) -> str:
    def truth(rounds, tokens, gamma, step, verify, draft):
        return tokens * step / (max(rounds) * (verify + gamma * draft))

    def more(rng):
        return ([rng.randint(10, 30) for _ in range(4)], 64, rng.randint(1, 8), 1.0,
                rng.uniform(1, 4), rng.uniform(0.1, 0.4))

    cases = [([20, 26, 18, 22], 64, 4, 1.0, 1.5, 0.2), ([16], 64, 4, 1.0, 1.25, 0.25),
             ([64, 30], 64, 2, 2.0, 5.0, 0.5), ([10, 20], 40, 8, 1.0, 3.0, 0.1)]
    known = [Mistake(lambda rounds, tokens, gamma, step, verify, draft: tokens * step * len(rounds)
                     / (sum(rounds) * (verify + gamma * draft)), "the mean text is counted: the "
                     "batch goes on until the slowest has ended", ENDS),
             Mistake(lambda rounds, tokens, gamma, step, verify, draft: tokens * step
                     / (max(rounds) * (verify + draft)), "one step of the draft is counted, and a "
                     "round has gamma", ENDS),
             Mistake(lambda rounds, tokens, gamma, step, verify, draft: tokens * step
                     / (max(rounds) * verify), "the draft's steps are forgotten", ENDS)]
    return check(answer, truth, cases + fresh(seed, more), known=known)
