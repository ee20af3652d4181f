"""A target split over real processes: the same ids as in one, whatever is decoded and how.

The processes are started once for all tests of a size. How they end is in test_processes_end.py.
"""
import shutil
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file, save_file

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
from model.split import Share, cut, kind_of
from tests.small_families import FAMILIES, give_weights, write_family
from weights import WeightsError, load_model
from weights.checkpoint import MODELS
from weights.processes.graphs import LedGraphs
from weights.processes.load import HEADS, load_leader
from weights.processes.start import together

PROMPTS = [[7, 11, 13, 17], [5], list(range(20, 41))]
N = 10
ONE, *OTHERS = FAMILIES
EACH = [ONE, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_no_family_is_forgotten():
    assert {family[0] for family in FAMILIES.values()} == set(MODELS)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def group(request):
    with together(request.param, "the tests") as group:
        yield group


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A small checkpoint of each family, in shards where the family has large ones."""
    folder = tmp_path_factory.mktemp("families")
    return {name: write_family(folder / name, name) for name in FAMILIES}


@pytest.fixture(params=EACH)
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

    for prompt in PROMPTS[:1] if leader.world.size > 2 else PROMPTS[:2]:
        assert list(decodings(leader, prompt)) == list(decodings(whole, prompt))


def test_a_batch_is_that_of_one_process(models):
    """Texts that end apart, and take each other's places."""
    leader, whole, draft = models
    ways = [(partial(speculative_batch, draft=draft), True), (autoregressive_batch, True),
            (partial(speculative_batch, draft=draft), False)]
    for run, continuous in ways[:1] if leader.world.size > 2 else ways:
        found = [run(target, prompts=PROMPTS, max_new_tokens=[7, N, 3], at_once=2,
                     sampling=Sampling(0.9), continuous=continuous,
                     generators=[seeded(i) for i in range(3)]) for target in (leader, whole)]
        assert [g.tokens for g in found[0]] == [g.tokens for g in found[1]]


def test_several_caches_at_once(group, models):
    leader, whole, _ = models
    one, other = leader.new_cache(27), leader.new_cache(27)
    ids = torch.tensor([PROMPTS[2][:9]])
    with torch.no_grad():
        for cache, tokens in ((one, ids), (other, ids.flip(1)), (one, ids + 1)):
            leader.forward(tokens, cache, last=0)
        number = other.number
        with patch.object(group, "send", wraps=group.send) as send:
            del cache, other
            leader.new_cache(5)
        assert [message[:2] for message in send.call_args[0][0]] == [
            ("forget", number), ("new_cache", number + 1)]
        found = leader.forward(ids + 2, one, last=1)
        want = whole.forward(torch.cat([ids, ids + 1, ids + 2], dim=1), last=1)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", EACH)
def test_logits_in_float32(group, folders, family):
    whole = load_model(folders[family])
    ids = torch.arange(50)[None]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for layout in ("plain", "strips"):
            leader = load_leader(group, str(folders[family]), layout=layout)
            torch.testing.assert_close(leader.forward(ids), whole.forward(ids), rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", EACH)
def test_shares_put_together_are_the_file(group, folders, family):
    """Bit by bit, whatever file of several a matrix is in, and nothing is left out."""
    whole = load_model(folders[family])
    kv_heads = whole.config.kv_heads
    copied = pytest.warns(UserWarning, match="each keep the same ones")
    with copied if kv_heads < group.size else nullcontext():
        leader = load_leader(group, str(folders[family]), layout="plain")
    group.announce("call", give_weights)
    given = give_weights(group, leader.share)
    for name, weight in whole.named_parameters():
        layer, _, leaf = name.rpartition(".")
        owners = given if layer not in HEADS else given[:1]  # process 0 alone has a head
        assert sum(name in weights for weights in given) == len(owners)
        together = torch.full_like(weight, torch.nan)
        for rank, weights in enumerate(owners):
            whole_layer = whole.get_submodule(layer)
            if kind_of(layer) is None or not isinstance(whole_layer, torch.nn.Linear):
                together[:] = weights[name]
                continue
            part = cut(layer, whole_layer.out_features, whole_layer.in_features,
                       Share(rank, group.size), kv_heads)
            if leaf == "bias" and part.of_inputs:
                together[:] = weights[name]
                continue
            dim = 1 if part.of_inputs else 0
            at = torch.cat([torch.arange(s.start, s.stop) for s in part.stretches])
            together.index_copy_(dim, at, weights[name])
        assert torch.equal(together, weight), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(group, folders, dtype):
    """As far from float64 as one process is, or nearer."""
    ids = torch.arange(50)[None]
    folder = folders["gpt2"]
    exact = load_model(folder, dtype=torch.float64).forward(ids)
    leader = load_leader(group, str(folder), dtype=dtype, layout="plain")
    with torch.no_grad():
        split, whole = (model.forward(ids) for model in (leader, load_model(folder, dtype=dtype)))
    assert split.dtype == dtype
    error, usual = ((logits - exact).square().mean() for logits in (split, whole))
    assert error < 1.5 * usual


def test_what_goes_wrong_on_another_process_is_said_here(group, folders, tmp_path):
    """Spoilt in a part that the last process alone reads; then all of them load something else."""
    shutil.copytree(folders["gpt2"], tmp_path / "spoilt")
    name = "transformer.h.1.mlp.c_fc.weight"
    (path,) = (path for path in (tmp_path / "spoilt").glob("*.safetensors")
               if name in load_file(path))
    tensors = load_file(path)
    tensors[name][0, -1] = torch.nan
    save_file(tensors, path)
    with pytest.raises(WeightsError) as error:
        load_leader(group, str(tmp_path / "spoilt"), layout="plain")
    assert str(error.value).startswith(f"process {group.size - 1}: ")
    assert f"{name} holds NaN" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(WeightsError, match="there is no folder"):
        load_leader(group, str(tmp_path / "nowhere"))
    leader = load_leader(group, str(folders["gpt2"]), layout="plain")
    assert leader.forward(torch.tensor([[1]])).shape == (1, 1, 131)


def test_a_process_holds_its_share_only(group, folders):
    """Matrices of the blocks are divided; of each number all processes have one in all."""
    leader = load_leader(group, str(folders["gpt2"]), layout="plain")
    whole = load_model(folders["gpt2"])
    for name, weight in whole.named_parameters():
        if name.count(".") < 4 or "ln_" in name:
            continue
        own = leader.share.model
        name = name.replace("c_proj.weight", "c_proj.product.weight")
        size = 1 if name.endswith("c_proj.bias") else group.size
        assert own.get_parameter(name).nbytes * size == weight.nbytes, name


def test_what_does_not_fit_is_refused_before_it_is_announced(group, folders):
    """Else the others would be in the middle of a pass that process 0 is not in."""
    leader = load_leader(group, str(folders["gpt2"]), layout="plain")
    cache = leader.new_cache(4)
    said = group.traffic.announcements
    for ids, last in (([1] * 5, 1), ([1], 2)):
        with pytest.raises(ValueError):
            leader.forward(torch.tensor([ids]), cache, last)
    with pytest.raises(ValueError):
        leader.forward(torch.zeros(1, 65, dtype=torch.long))
    assert group.traffic.announcements == said
    with torch.no_grad():
        assert leader.forward(torch.tensor([[1]]), cache).isfinite().all()


def test_recorded_shapes(group, folders):
    """On a CPU nothing is recorded, but it is the code and the announcements that a GPU has."""
    whole = load_model(folders["gpt2"], dtype=torch.float64)
    leader = load_leader(group, str(folders["gpt2"]), dtype=torch.float64, layout="plain")
    graphs = LedGraphs(leader, group, (1, 5))
    for prompt in PROMPTS:
        want = autoregressive(whole, prompt, N).tokens
        assert autoregressive(graphs, prompt, N).tokens == want
        before = replace(group.traffic)
        run = speculative_greedy(graphs, whole, prompt, N, gamma=4)
        assert run.tokens == want
        traffic = group.traffic.since(before)
        assert traffic.sums == 4 * traffic.passes  # two layers
    with pytest.raises(ValueError, match="no longer in use"):
        old = graphs.new_cache(9)
        graphs.new_cache(9)
        graphs.forward(torch.tensor([[1]]), old)
