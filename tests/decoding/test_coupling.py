"""Shared Gumbel noise: one text for one seed, whatever drafts, in the target's distribution."""
from collections import Counter

import pytest
import torch

from decoding import Sampling, autoregressive, speculative_greedy
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters import LookupDrafter
from decoding.proof.distributions import PROMPT, by_definition
from decoding.proof.toys import HashModel
from decoding.sampling import to_probs
from tests.checks import check_run

# its context is the shorter one
pytestmark = pytest.mark.filterwarnings("ignore:the draft reads at most")

TARGET, DRAFT = HashModel(1, n_vocab=12, n_ctx=32), HashModel(2, n_vocab=12, n_ctx=20)
SETTINGS = [{}, {"temperature": 0.5}, {"top_k": 4}, {"top_p": 0.7},
            {"temperature": 1.5, "top_k": 6, "top_p": 0.8}]


class RandomDrafter(LookupDrafter):
    """Proposes anything."""

    def propose(self, tokens, k, sampling, generator):
        ids = torch.randint(self.n_vocab, (k,), generator=generator)
        return ids, torch.full((k, self.n_vocab), 1 / self.n_vocab)


def coupled(seed, *models, **settings):
    """Models that share the noise of a seed."""
    noise = SharedNoise(torch.Generator().manual_seed(seed))
    return [Coupled(model, Sampling(**settings), noise) if hasattr(model, "config") else model
            for model in models]


def test_ids_are_the_plain_loops_for_every_gamma_and_draft():
    for settings in SETTINGS:
        for eos in (None, 3):
            expected = autoregressive(*coupled(5, TARGET, **settings), PROMPT, 25, eos=eos)
            for draft in (TARGET, DRAFT, LookupDrafter(12), RandomDrafter(12)):
                for gamma in (0, 1, 3, 5):
                    run = speculative_greedy(*coupled(5, TARGET, draft, **settings), PROMPT, 25,
                                             gamma=gamma, eos=eos)
                    assert run.tokens == expected.tokens, (settings, gamma)
                    assert run.finish_reason == expected.finish_reason, (settings, gamma)
                    assert draft is not TARGET or run.corrections == 0


def test_another_seed_gives_another_text():
    texts = {tuple(autoregressive(*coupled(seed, TARGET), PROMPT, 25).tokens) for seed in range(10)}
    assert len(texts) == 10


@pytest.mark.slow
def test_the_distribution_is_the_targets():
    target, draft, runs = HashModel(1), HashModel(2), 1500  # three tokens
    sampling = {"temperature": 0.8, "top_p": 0.9}
    seen = Counter()
    for seed in range(runs):
        pair = coupled(seed, target, draft, **sampling)
        seen[tuple(speculative_greedy(*pair, PROMPT, 2, gamma=2).tokens)] += 1
    wanted = by_definition(target, 2, Sampling(**sampling))
    assert seen.keys() <= wanted.keys()
    chi_square = sum((seen[text] - runs * p) ** 2 / (runs * p) for text, p in wanted.items())
    freedom = torch.tensor((len(wanted) - 1) / 2)
    assert torch.special.gammaincc(freedom, torch.tensor(chi_square / 2)) > 1e-5


def test_a_position_keeps_its_noise_however_often_and_in_which_order_it_is_asked_for():
    one, two = (SharedNoise(torch.Generator().manual_seed(9)) for _ in range(2))
    cpu = torch.device("cpu")
    rows = [one.row(position, 50, cpu) for position in (0, 1, 2, 3)]
    for position in (3, 1, 3, 0, 2):
        assert torch.equal(two.row(position, 50, cpu), rows[position])
    assert all(not torch.equal(rows[i], rows[j]) for i in range(4) for j in range(i))


def test_rows_are_decided_by_the_noise_of_their_own_positions():
    model = coupled(2, TARGET, top_k=5)[0]
    tokens = torch.arange(11)[None]
    rows = model.forward(tokens)[0]
    sampling, noise = Sampling(top_k=5), SharedNoise(torch.Generator().manual_seed(2))
    for position in range(1, 12):  # of the token that follows
        probs = to_probs(TARGET.forward(tokens[:, :position], last=1)[0, 0], sampling)
        assert torch.equal(rows[position - 1], probs.log() + noise.row(position, 12, probs.device))
    for last in (0, 1, 4):  # the same after a cache, and for fewer rows
        cache = model.new_cache(11)
        model.forward(tokens[:, :7], cache, last=0)
        assert torch.equal(model.forward(tokens[:, 7:], cache, last=last)[0], rows[11 - last:])


def test_noise_is_refused_at_temperature_0():
    with pytest.raises(ValueError, match="temperature 0"):
        coupled(0, TARGET, temperature=0)


def test_counts_and_caches_are_those_of_any_run():
    run = speculative_greedy(*coupled(1, TARGET, DRAFT), PROMPT, 25, gamma=3)
    check_run(run, PROMPT, draft_ctx=20)
