"""A draft that is right with a chosen probability, and Leviathan's formula (1) checked by it."""
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.drafters import SyntheticDrafter
from decoding.proof.toys import TextCache, tiny_pair
from decoding.theory import expected_tokens_per_round
from tests.checks import check_counts


class Counter:
    """A target that counts: after id i comes i + 1.

    As quick as a model can be, and its text is known without running it.
    """

    config = SimpleNamespace(n_vocab=3, n_ctx=10**6)

    def new_cache(self, capacity):
        return TextCache(capacity)

    def forward(self, tokens, cache, last):
        cache.ids += tokens[0].tolist()
        return F.one_hot((tokens[:, tokens.shape[1] - last:] + 1) % 3, 3).float()


def counting(length):
    return [i % 3 for i in range(length)]


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma, tokens",
                         [(0, 4, 500), (0.3, 1, 12_000), (0.6, 2, 12_000), (0.8, 4, 20_000),
                          (0.95, 8, 30_000), (1, 4, 1_000)])
def test_tokens_per_round_follow_the_formula(alpha, gamma, tokens):
    g = speculative_greedy(Counter(), SyntheticDrafter(counting(tokens + 1), alpha, 3, seed=1), [0],
                           tokens, gamma=gamma)
    assert g.tokens == counting(tokens + 1)[1:]
    full = [r for r in g.rounds if len(r.drafted) == gamma]
    found = sum(len(r.emitted) for r in full) / len(full)
    assert found == pytest.approx(expected_tokens_per_round(alpha, gamma),
                                  rel=0 if alpha in (0, 1) else 0.01)
    assert check_counts(g) is None


def test_right_and_wrong_come_independently():
    drafter = SyntheticDrafter(counting(20_001), 0.7, 3)
    drafter.start([0], 0)
    ids, q = drafter.propose([0], 20_000, Sampling(0), None)
    right = (ids == torch.tensor(counting(20_001)[1:])).double()
    assert right.mean().item() == pytest.approx(0.7, abs=0.015)
    assert (right[1:] * right[:-1]).mean().item() == pytest.approx(0.49, abs=0.02)
    assert torch.equal(q.argmax(1), ids) and torch.equal(q.sum(1), torch.ones(20_000))


def test_on_a_real_model_the_text_is_the_targets_and_the_seed_repeats_the_rounds():
    target, _ = tiny_pair()
    text = autoregressive(target, [1, 2], 60).tokens
    runs = [speculative_greedy(target, SyntheticDrafter([1, 2, *text], 0.5, 24, seed), [1, 2], 60,
                               gamma=3) for seed in (7, 7, 8)]
    assert all(run.tokens == text for run in runs)
    same, again, other = ([r.drafted for r in run.rounds] for run in runs)
    assert same == again != other
    # one drafter twice: each run starts afresh
    drafter = SyntheticDrafter([1, 2, *text], 0.5, 24, 7)
    assert all([r.drafted
                for r in speculative_greedy(target, drafter, [1, 2], 60, gamma=3).rounds] == same
               for _ in range(2))


def test_where_its_text_ends_the_target_goes_on_alone():
    with pytest.warns(UserWarning, match="at most 5 tokens"):
        g = speculative_greedy(Counter(), SyntheticDrafter(counting(5), 1, 3), [0], 9, gamma=3)
    assert g.tokens == counting(10)[1:]
    assert [len(r.drafted) for r in g.rounds] == [3, 0, 0, 0, 0, 0]


def test_what_it_refuses():
    with pytest.raises(ValueError, match="probability"):
        SyntheticDrafter([0], 1.1, 3)
    with pytest.raises(ValueError, match="no wrong one"):
        SyntheticDrafter([0], 0.5, 1)
    with pytest.raises(ValueError, match="greedy runs only"):
        speculative_sampling(Counter(), SyntheticDrafter(counting(9), 1, 3), [0], 5)
