"""A target split over real processes: the same ids as in one, whatever is decoded and how.

The processes are started once for all tests of a size. How they end is in test_processes_end.py.
"""
import warnings
from functools import partial

import pytest
import torch

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.acceptance import accept_block
from decoding.batched import autoregressive_batch, speculative_batch
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters import LookupDrafter
from decoding.drafters.tree import CombDrafter, WidthsDrafter
from decoding.feed import Uncached
from decoding.gamma import AdaptiveGamma
from decoding.result import Generation
from decoding.sampling import GREEDY
from decoding.tree import tree_rounds
from tests.small_families import FAMILIES, write_family
from weights import load_model
from weights.processes.load import load_leader
from weights.processes.start import together

PROMPTS = [[5], [7, 11, 13, 17], list(range(20, 41))]
N = 24


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module", params=[2, 4])
def group(request):
    with together(request.param, "the tests") as group:
        yield group


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A small checkpoint of each family, in shards where the family has large ones."""
    folder = tmp_path_factory.mktemp("families")
    return {name: write_family(folder / name, name) for name in FAMILIES}


@pytest.fixture(params=FAMILIES)
def models(request, group, folders):
    """The target split and whole, and a draft that is right about half the time.

    In float64: what is compared are ids, and rounding must not decide one.
    """
    folder = folders[request.param]
    whole, draft = (load_model(folder, dtype=torch.float64) for _ in range(2))
    for weight in draft.parameters():
        weight += 0.05 * weight.abs().mean() * torch.randn(weight.shape, generator=seeded(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_leader(group, str(folder), dtype=torch.float64, layout="plain"), whole, draft


def trees(drafter, target, prompt, sampling, seed):
    rounds = tree_rounds(target, drafter, prompt, N, sampling=sampling, generator=seeded(seed))
    return Generation(list(rounds), drafter.depth).tokens


def test_ids_are_those_of_one_process(models):
    leader, whole, draft = models
    sampled = Sampling(temperature=0.9, top_k=50)
    n_vocab = whole.config.n_vocab

    def decodings(target, prompt):
        """Every way to decode."""
        noise = SharedNoise(seeded(5))
        yield autoregressive(target, prompt, N).tokens
        yield speculative_greedy(target, draft, prompt, N).tokens
        yield speculative_greedy(target, draft, prompt, N, gamma=AdaptiveGamma()).tokens
        yield speculative_greedy(target, LookupDrafter(n_vocab), prompt, N).tokens
        yield speculative_greedy(Uncached(target), draft, prompt, 4).tokens
        yield autoregressive(target, prompt, N, sampling=sampled, generator=seeded(1)).tokens
        for rule in (None, accept_block):
            yield speculative_sampling(target, draft, prompt, N, sampling=sampled, rule=rule,
                                       generator=seeded(2)).tokens
        yield speculative_greedy(Coupled(target, sampled, noise), Coupled(draft, sampled, noise),
                                 prompt, N).tokens
        for sampling in (GREEDY, sampled):
            yield trees(CombDrafter(draft, 3, 2), target, prompt, sampling, 7)
            yield trees(WidthsDrafter(draft, [3, 2, 1]), target, prompt, sampling, 8)

    for prompt in PROMPTS:
        assert list(decodings(leader, prompt)) == list(decodings(whole, prompt))


def test_a_batch_is_that_of_one_process(models):
    """Texts that end apart, and take each other's places."""
    leader, whole, draft = models
    budgets = [9, N, 3]
    for run in (partial(speculative_batch, draft=draft), autoregressive_batch):
        for continuous in (False, True):
            found = [run(target, prompts=PROMPTS, max_new_tokens=budgets, at_once=2,
                         sampling=Sampling(0.9), continuous=continuous,
                         generators=[seeded(i) for i in range(3)]) for target in (leader, whole)]
            assert [g.tokens for g in found[0]] == [g.tokens for g in found[1]]


def test_several_caches_at_once(models):
    leader, whole, _ = models
    one, other = leader.new_cache(27), leader.new_cache(27)
    ids = torch.tensor([PROMPTS[2][:9]])
    with torch.no_grad():
        for cache, tokens in ((one, ids), (other, ids.flip(1)), (one, ids + 1)):
            leader.forward(tokens, cache, last=0)
        del other
        leader.new_cache(5)
        found = leader.forward(ids + 2, one, last=1)
        want = whole.forward(torch.cat([ids, ids + 1, ids + 2], dim=1), last=1)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_in_float32(group, folders, family):
    whole = load_model(folders[family])
    ids = torch.arange(50)[None]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for layout in ("plain", "auto"):
            leader = load_leader(group, str(folders[family]), layout=layout)
            torch.testing.assert_close(leader.forward(ids), whole.forward(ids), rtol=0, atol=1e-4)
