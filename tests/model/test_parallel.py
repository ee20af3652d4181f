"""A model split by heads: the parts are all of it, and what they add up to is what it computes.

The processes are threads here. tests/decoding/test_processes.py has real ones.
"""
import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from model import GPT2, GPT2Config
from model.meta import without_memory
from model.parallel import SharedOut, share_out
from model.split import Divided, Share, cut

GPT2_ = GPT2, GPT2Config(n_layer=2, n_head=4, n_embd=32, n_vocab=97, n_ctx=40)
FAMILIES = {"gpt2": GPT2_}
SIZES = (1, 2, 4)


class Threads:
    """A `World` whose processes are threads. It says nothing: they all do the same anyway."""

    def __init__(self, rank, size, barrier, numbers):
        self.rank, self.size, self.barrier, self.numbers = rank, size, barrier, numbers

    def add(self, y):
        self.numbers[self.rank] = y
        self.barrier.wait()
        total = sum(self.numbers[1:], self.numbers[0])
        self.barrier.wait()
        return total

    def one_pass(self):
        return nullcontext()


@pytest.fixture(params=FAMILIES)
def whole(request):
    """A model with weights large enough that every one of them shows in the logits."""
    kind, config = FAMILIES[request.param]
    model = kind(config).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return model


def split(whole, size):
    """The shares of a model, and the cuts of each."""
    barrier, numbers = threading.Barrier(size), [None] * size
    shares, cuts = [], []
    for rank in range(size):
        model = without_memory(type(whole), whole.config, torch.float32)
        cuts.append(share_out(model, Threads(rank, size, barrier, numbers)))
        for name, weight in whole.named_parameters():
            layer, _, leaf = name.rpartition(".")
            found = cuts[rank].get(layer)
            part = model.get_submodule(layer)
            if found is not None:
                weight = found.take(weight)
                if found.of_inputs and leaf == "weight":
                    part = part.product
            assert getattr(part, leaf).shape == weight.shape, name
            setattr(part, leaf, nn.Parameter(weight, requires_grad=False))
        heads = whole.config.kv_heads
        shares.append(SharedOut(model, heads // Share(rank, size).of_heads(heads).size))
    return shares, cuts


def at_once(shares, work):
    """What each thread makes of its share."""
    found = [None] * len(shares)

    def run(rank):
        with torch.no_grad():
            found[rank] = work(shares[rank])

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(shares))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("size", SIZES)
def test_every_process_gets_the_logits_of_the_whole_model(whole, size):
    """Without a cache, in blocks with one, after a rejected block."""
    ids = torch.arange(30)[None]
    want = whole(ids)

    def read(share):
        cache = share.new_cache(32)
        rows = [share(ids[:, :11], cache)]
        share(ids[:, 3:8], cache)
        cache.truncate(11)
        rows += [share(ids[:, i:i + 1], cache) for i in range(11, 16)] + [share(ids[:, 16:], cache)]
        return share(ids), torch.cat(rows, dim=1)

    shares, _ = split(whole, size)
    for found in at_once(shares, read):
        for logits in found:
            torch.testing.assert_close(logits, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_the_parts_put_together_are_the_matrices(whole, size):
    """Bit by bit, each row or column where it was; nobody has what another has."""
    _, cuts = split(whole, size)
    layers = [name for name, layer in whole.named_modules() if isinstance(layer, nn.Linear)]
    assert {name for name in layers if name.count(".") > 1} == set(cuts[0])  # all in the blocks
    for name in cuts[0]:
        weight = whole.get_submodule(name).weight
        for turned in (False, True):
            stored = weight.T if turned else weight
            again = torch.full_like(stored, torch.nan)
            heads = 0 if "k_proj" not in name and "v_proj" not in name else whole.config.kv_heads
            for rank, own in enumerate(cuts):
                dim = int(own[name].of_inputs != turned)
                taken = own[name].take(stored, turned).split(
                    [s.stop - s.start for s in own[name].stretches], dim)
                for part, stretch in zip(taken, own[name].stretches, strict=True):
                    there = again[stretch] if dim == 0 else again[:, stretch]
                    kept_by_others = 0 < heads < size and rank % (size // heads) > 0
                    assert torch.equal(there, part) if kept_by_others else there.isnan().all()
                    there.copy_(part)
            assert torch.equal(again, stored), name


def test_biases_of_a_sum_are_whole_and_others_cut():
    bias = torch.arange(12.0)
    for rank in range(4):
        share = Share(rank, 4)
        assert torch.equal(cut("h.0.mlp.c_proj", 12, 48, share, 4).take(bias), bias)
        assert cut("h.0.mlp.c_fc", 12, 3, share, 4).take(bias).tolist() == [3 * rank + i
                                                                         for i in range(3)]
        assert cut("h.0.attn.c_attn", 12, 4, share, 4).take(bias).tolist() == [
            rank, 4 + rank, 8 + rank]


@pytest.mark.parametrize("heads, kv_heads, size", [
    (8, 8, 4), (8, 2, 2), (8, 2, 4), (8, 2, 8), (12, 4, 12), (6, 1, 3), (64, 8, 16)])
def test_a_process_has_the_keys_that_its_queries_look_at(heads, kv_heads, size):
    """Query i looks at the keys i * kv_heads // heads; a head's row is its number here."""
    for rank in range(size):
        share = Share(rank, size)
        queries, keys = (cut(f"layers.0.self_attn.{name}_proj", n, 3, share, kv_heads).take(
            torch.arange(n)).tolist() for name, n in (("q", heads), ("k", kv_heads)))
        assert len(queries) == heads // size
        group = len(queries) // len(keys)
        for i, query in enumerate(queries):
            assert keys[i // group] == query * kv_heads // heads


@pytest.mark.parametrize("heads, kv_heads, n_mlp, fit", [
    (4, 4, 16, [1, 2, 4]), (25, 25, 6400, [1, 5, 25]), (8, 2, 64, [1, 2, 4, 8]),
    (8, 8, 36, [1, 2, 4]), (12, 4, 12, [1, 2, 4, 12]), (6, 3, 6, [1, 3, 6])])
def test_sizes_that_do_not_divide_are_refused(heads, kv_heads, n_mlp, fit):
    divided = Divided(heads, kv_heads, n_mlp)
    for size in range(1, heads + 3):
        if size in fit:
            divided.check(size)
            continue
        with pytest.raises(ValueError) as error:
            divided.check(size)
        assert "\n" not in str(error.value) and f"among {size} processes" in str(error.value)
        assert str(error.value).endswith(", ".join(map(str, fit)))
