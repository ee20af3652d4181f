"""model/fast: packed or plain, the logits and the ids are the same.

And nn.Linear stays where there is no packing.
"""
import copy
import gc
import math
import weakref
from functools import partial

import pytest
import torch

from decoding import autoregressive, speculative_greedy
from decoding.proof.toys import Spy
from model import GPT2, GPT2Config
from model.decoder import TiedHead
from model.fast.layouts import (
    FOUND,
    MOST_TOKENS,
    ONEDNN,
    PLAIN,
    STRIPS,
    layout_for,
    layout_name,
    pack,
)
from model.fast.onednn import OneDNNLinear, memory, reorder
from model.fast.output_heads import ConvolvedHead, OneTokenHead, TurnedHead
from model.fast.strips import StripLinear
from model.fast.timing import quickest, sample
from model.meta import without_memory
from weights import load_fast, load_model

CONFIG = GPT2Config(n_layer=3, n_head=4, n_embd=64, n_vocab=301, n_ctx=80)


@torch.no_grad()
def onednn_is_here():
    try:
        return bool(OneDNNLinear(torch.ones(64, 64), torch.ones(64), 5, {}))
    except (AttributeError, RuntimeError):
        return False


needs_onednn = pytest.mark.skipif(not onednn_is_here(),
                                  reason="no oneDNN here, or it does not lay out weights in strips")


def plain(dtype=torch.float32, seed=0):
    """Weights large enough that every one of them shows in the logits."""
    gpt2 = GPT2(CONFIG).to(dtype).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in gpt2.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    return gpt2


@pytest.fixture(params=[
    (STRIPS, TiedHead, 5), (STRIPS, TurnedHead, 5),
    *(pytest.param((ONEDNN, ConvolvedHead, rows), marks=needs_onednn)
      for rows in (1, 3, 4, 5, 9, 17)),
    pytest.param((ONEDNN, OneTokenHead, 2), marks=needs_onednn)])
def packed(request, choose):
    """The same weights packed, whatever is fastest here."""
    name, head, tokens = request.param
    choose(name, head)
    return pack(plain(), tokens_per_pass=tokens)


def layers(gpt2):
    parts = "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"
    return [block.get_submodule(part) for block in gpt2.h for part in parts]


@pytest.mark.parametrize("batch, rows", [(1, n) for n in range(1, 12)] + [(1, 64), (3, 2), (3, 5)])
def test_logits_are_the_same(packed, batch, rows):
    tokens = torch.arange(batch * (7 + rows)).view(batch, -1)
    want = plain()(tokens)
    cache = packed.new_cache(7 + rows, batch)
    packed(tokens[:, :7], cache, last=0)
    torch.testing.assert_close(packed(tokens[:, 7:], cache), want[:, 7:], rtol=0, atol=1e-4)
    torch.testing.assert_close(packed(tokens), want, rtol=0, atol=1e-4)


def test_ids_are_the_same(packed):
    want, other = autoregressive(plain(), [1, 2, 3], 30).tokens, pack(plain(seed=1))
    assert autoregressive(packed, [1, 2, 3], 30).tokens == want
    for gamma in (1, 4, 8):
        run = speculative_greedy(packed, other, [1, 2, 3], 30, gamma=gamma)
        assert run.tokens == want
        assert speculative_greedy(packed, packed, [1, 2, 3], 30, gamma=gamma).corrections == 0


def test_the_weights_are_kept_once_and_can_be_had_back(packed):
    kind = StripLinear if layout_name(packed) == STRIPS else OneDNNLinear
    assert all(type(layer) is kind for layer in layers(packed))
    want = plain().state_dict()
    assert packed.state_dict().keys() == want.keys()
    assert all(torch.equal(weight, want[name]) for name, weight in packed.state_dict().items())
    numbers, wanted = (sum(weight.numel() for weight in weights)
                       for weights in (packed.parameters(), want.values()))
    assert numbers == wanted


def test_a_copy_is_a_plain_model(packed):
    tokens = torch.arange(12)[None]
    unpacked = copy.deepcopy(packed)
    assert all(type(layer) is torch.nn.Linear for layer in layers(unpacked))
    assert torch.equal(unpacked(tokens), plain()(tokens))
    assert torch.equal(unpacked.double()(tokens), plain().double()(tokens))
    unpacked.requires_grad_(True)(tokens).sum().backward()
    assert all(weight.grad is not None for weight in unpacked.parameters())


def test_a_packed_model_refuses_to_be_converted(packed):
    packed.float().to("cpu").eval()  # these change nothing
    for conversion in (torch.float64, torch.bfloat16, "meta"):
        with pytest.raises(RuntimeError, match="deepcopy"):
            pack(plain()).to(conversion)


@needs_onednn
def test_onednn_and_pytorch_read_one_memory():
    weight = torch.randn(48, 32, generator=torch.Generator().manual_seed(0))
    layer = OneDNNLinear(weight, torch.zeros(48), 5, {})
    assert layer.weight.data_ptr() == torch.ops.mkldnn.data_ptr(layer.packed)
    strips = layer.weight
    del layer
    gc.collect()
    others = [torch.full((48, 32), 7.0) for _ in range(50)]  # would take the memory if it were free
    assert torch.equal(strips.transpose(1, 2).flatten(0, 1), weight) and others


@pytest.mark.parametrize("kind", [
    StripLinear,
    pytest.param(partial(OneDNNLinear, tokens_per_pass=5, packed_by_shape={}), marks=needs_onednn)])
@pytest.mark.parametrize("n_out", [16, 96])
def test_a_packed_layer_has_copies_of_its_weight_and_bias(kind, n_out):
    """What it is given may lie in a file.

    One strip, of a weight that is stored [in, out], would not have to be moved.
    """
    stored, bias = torch.arange(32.0 * n_out).view(32, n_out), torch.arange(float(n_out))
    weight, want = stored.T, stored.T.clone()
    layer = kind(weight, bias)
    stored.zero_(), bias.zero_()
    assert torch.equal(layer.to_plain(), want)
    assert torch.equal(layer.bias, torch.arange(float(n_out)))


@needs_onednn
def test_layers_of_one_shape_have_each_its_own_memory():
    packed_by_shape = {}
    numbers = torch.randn(3, 64, 32, generator=torch.Generator().manual_seed(0))
    made = [OneDNNLinear(weight, weight[:, 0], 5, packed_by_shape) for weight in numbers]
    assert len(packed_by_shape) == 1
    for layer, weight in zip(made, numbers):
        want = weight.T[:5] + weight[:, 0]
        torch.testing.assert_close(layer(torch.eye(32)[:5]), want, rtol=0, atol=1e-5)


@needs_onednn
def test_a_weight_that_is_not_a_number_is_not_another_layout():
    layer = OneDNNLinear(torch.full((64, 32), torch.nan), torch.zeros(64), 5, {})
    assert layer(torch.ones(1, 32)).isnan().all()


def test_what_makes_no_sense_is_refused(packed):
    with pytest.raises(ValueError, match="'fast'"):
        pack(plain(), "fast")
    with pytest.raises(ValueError, match="tokens_per_pass must be at least 1, not 0"):
        pack(plain(), tokens_per_pass=0)
    for linear in ("auto", "plain"):
        with pytest.raises(ValueError, match="packed already"):
            pack(packed, linear)


def test_the_quickest_is_found(monkeypatch):
    """The one whose times for one row and for several are the least together."""
    def takes(one, more):
        return [lambda x: took.append(one if x.shape[1] == 1 else more)]

    took = []
    monkeypatch.setattr("timeit.timeit", lambda call, number: call() or took[-1])
    candidates = {"slow alone": takes(20, 0), "quick": takes(1, 1), "slow together": takes(0, 20)}
    assert quickest(candidates, torch.ones(1), [1], 5) == "quick"


@pytest.mark.parametrize("head", [TiedHead, TurnedHead, OneTokenHead, ConvolvedHead])
def test_plain_layers_can_be_trained_and_converted_whatever_the_head(choose, head):
    choose(head, PLAIN)
    gpt2, tokens = pack(plain()), torch.arange(9)[None]
    assert layout_name(gpt2) == PLAIN
    assert type(gpt2.head) is head or head not in (TiedHead, TurnedHead)
    for n in (1, 9):
        gpt2.requires_grad_(True)(tokens[:, :n]).sum().backward()
        assert all(weight.grad is not None for weight in gpt2.parameters())
        gpt2.zero_grad()
    torch.testing.assert_close(gpt2.double()(tokens), plain().double()(tokens))


@needs_onednn
@pytest.mark.parametrize("wanted", range(1, MOST_TOKENS + 1))
def test_a_few_rows_go_to_onednn_and_never_make_it_rearrange_the_weight(wanted):
    weight = torch.arange(480.0 * 32).remainder(251).view(480, 32)
    layer, seen = OneDNNLinear(weight, torch.zeros(480), wanted, {}), set()
    for rows in range(1, 25):
        x = torch.ones(rows, 32)
        with torch.autograd.profiler.profile(record_shapes=True) as profile:
            y = layer(x)
        assert torch.equal(y, weight.sum(1).expand(rows, 480))
        seen |= {math.prod(event.input_shapes[0]) // 32 for event in profile.function_events
                 if event.name == "mkldnn::_convolution_pointwise"}
    assert all(torch.equal(memory(reorder(weight, size)), layer.weight.flatten()) for size in seen)
    assert any(wanted + more in seen for more in range(3))


@needs_onednn
@pytest.mark.parametrize("missing", ["_linear_pointwise", "_convolution_pointwise",
                                     "_reorder_convolution_weight", "data_ptr", "_nbytes"])
def test_without_the_operators_the_choice_is_among_the_others(monkeypatch, choose, missing):
    class Operators:
        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return getattr(operators, name)

    operators = torch.ops.mkldnn
    monkeypatch.setattr(torch.ops, "mkldnn", Operators())
    for favourite in (ONEDNN, PLAIN):
        choose(favourite, STRIPS)
        gpt2 = pack(plain())
        if missing == "_linear_pointwise":
            assert type(gpt2.head) is TurnedHead
        else:
            assert layout_name(gpt2) == (PLAIN if favourite == PLAIN else STRIPS)
        packed_head = missing != "_linear_pointwise" and favourite != PLAIN
        assert issubclass(type(gpt2.head), OneTokenHead) == packed_head
        for tokens in (torch.arange(1)[None], torch.arange(9)[None]):
            torch.testing.assert_close(gpt2(tokens), plain()(tokens), rtol=0, atol=1e-4)


def test_another_layout_of_onednn_is_noticed(monkeypatch, choose):
    """As another processor may have one: here the strips seem to hold other numbers than ours."""
    monkeypatch.setattr("model.fast.onednn.cut", lambda weight, width: torch.zeros(
        len(weight) // width, weight.shape[1], width))
    choose(ONEDNN, STRIPS)
    assert layout_name(pack(plain())) == STRIPS


def test_a_model_that_cannot_be_cut_into_strips_stays_plain():
    odd = GPT2(GPT2Config(n_layer=1, n_head=1, n_embd=20, n_vocab=30, n_ctx=8))
    assert layout_name(pack(odd)) == PLAIN


@pytest.mark.parametrize("name", [PLAIN, STRIPS, pytest.param(ONEDNN, marks=needs_onednn)])
def test_the_fastest_one_is_used(choose, name):
    choose(name)
    assert layout_name(pack(plain())) == name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_number_format_runs(dtype):
    gpt2, tokens = pack(plain(dtype)), torch.arange(9)[None]
    logits = gpt2(tokens)
    assert logits.dtype == dtype
    assert dtype != torch.float64 or layout_name(gpt2) in (PLAIN, STRIPS)
    want = plain(dtype)(tokens)
    limit = 16 * torch.finfo(dtype).eps * want.abs().max().item()
    torch.testing.assert_close(logits, want, rtol=0, atol=limit)


def test_layers_that_blocks_share_are_all_packed(packed):
    shared = plain()
    shared.h[1].mlp.c_fc, shared.h[2].mlp = shared.h[0].mlp.c_fc, shared.h[0].mlp
    want = copy.deepcopy(shared)(torch.arange(9)[None])
    got = pack(shared)
    assert not any(type(layer) is torch.nn.Linear for layer in layers(got))
    torch.testing.assert_close(got(torch.arange(9)[None]), want, rtol=0, atol=1e-4)


def test_packing_holds_one_plain_layer_at_a_time(monkeypatch, choose):
    choose(STRIPS)
    unpacked = plain()
    alive = [weakref.ref(layer.weight) for layer in layers(unpacked)]
    held = []  # plain weights, whenever a layer was made
    strips = StripLinear.__init__

    def count(self, weight, bias):
        strips(self, weight, bias)
        held.append(sum(ref() is not None for ref in alive))

    monkeypatch.setattr(StripLinear, "__init__", count)
    pack(unpacked)
    assert held[-len(alive):] == list(range(len(alive), 0, -1))


def test_a_layout_is_found_once_for_its_tokens_and_dtype_on_the_cpu(choose):
    timed = choose(PLAIN, TiedHead)
    for tokens in (5, 3, 5, 50, 1):
        assert layout_name(load_fast("tales-small", tokens_per_pass=tokens)) == PLAIN
    load_fast("tales-small", dtype=torch.bfloat16, tokens_per_pass=5)
    want = [(5, torch.float32), (3, torch.float32), (1, torch.float32), (5, torch.bfloat16)]
    layers = [timing for timing in timed if PLAIN in timing[0]]
    assert [(tokens, dtype) for _, tokens, dtype, _ in layers] == want
    assert layout_name(load_fast("tales-small", device="meta", tokens_per_pass=2)) == PLAIN
    load_fast("tales-small", linear="plain", tokens_per_pass=2)
    load_model("tales-small")
    assert len(timed) == 2 * len(want)  # the layers and the head of each


@needs_onednn
def test_a_default_device_does_not_change_what_is_timed(choose):
    timed = choose(ONEDNN, ConvolvedHead)
    with torch.device("meta"):
        layout = layout_for(GPT2(CONFIG), "cpu")
    heads = [TiedHead, TurnedHead, OneTokenHead, ConvolvedHead]
    assert [candidates for candidates, *_ in timed] == [[PLAIN, STRIPS, ONEDNN], heads]
    assert [device for *_, device in timed] == ["cpu", "cpu"]
    assert isinstance(layout.layer, partial) and layout.head is ConvolvedHead


def test_the_layers_that_are_timed_are_no_more_than_the_model_has_and_on_the_cpu():
    tiny = GPT2Config(n_layer=2, n_head=1, n_embd=16, n_vocab=30, n_ctx=8)
    with torch.device("meta"):
        timed = sample(without_memory(tiny, torch.float64))
    shapes = [tuple(layer.weight.shape) for layer in timed]
    assert shapes == 2 * [(48, 16), (16, 16), (64, 16), (16, 64)]
    assert {layer.weight.device.type for layer in timed} == {"cpu"}
    assert {layer.weight.dtype for layer in timed} == {torch.float64}
    assert all((weight == 1).all() for layer in timed for weight in layer.parameters())


def test_a_layout_is_found_from_the_shapes_of_any_models_layers(choose):
    """Blocks with other shapes than GPT-2's; each shape is timed once."""
    def family(width):
        gpt2 = plain()
        for block in gpt2.h:
            block.mlp.c_fc = torch.nn.Linear(64, width)
            block.mlp.c_proj = torch.nn.Linear(width, 64)
        return gpt2.requires_grad_(False)

    timed = choose(STRIPS)
    for width in (96, 96, 32):
        gpt2, tokens = family(width), torch.arange(9)[None]
        want = gpt2(tokens)
        torch.testing.assert_close(pack(gpt2)(tokens), want, rtol=0, atol=1e-4)
        assert layout_name(gpt2) == STRIPS
    assert len(timed) == 2 * 2
    shapes = [key[2:-1] for key in FOUND]
    assert shapes == [((192, 64), (64, 64), (width, 64), (64, width)) for width in (96, 32)]


def test_plain_is_plain():
    loaded = load_fast("tales-small", linear="plain"), load_model("tales-small")
    for gpt2 in (pack(plain(), "plain"), *loaded):
        assert layout_name(gpt2) == "nn.Linear"
        assert all(type(layer) is torch.nn.Linear for layer in layers(gpt2))
        assert type(gpt2.head) is TiedHead


def test_timing_leaves_the_global_random_state_alone():
    FOUND.clear()
    before = torch.random.get_rng_state()
    pack(plain())
    state = torch.random.get_rng_state()
    torch.random.set_rng_state(before)
    plain()
    assert torch.equal(torch.random.get_rng_state(), state)


class Watched(Spy):
    """Counts the caches it is asked for, and keeps the addresses of those it is given."""

    def __init__(self, model):
        super().__init__(model)
        self.made, self.addresses = [], set()

    def new_cache(self, capacity):
        self.made.append(super().new_cache(capacity))
        return self.made[-1]

    def forward(self, tokens, cache=None, last=None):
        self.addresses.add((cache.keys.data_ptr(), cache.values.data_ptr()))
        return super().forward(tokens, cache, last)


def test_a_step_allocates_no_cache():
    """A run makes its cache once, and the memory stays where it is."""
    target, draft = (Watched(load_fast("tales-small", linear="plain")) for _ in range(2))
    autoregressive(target, [1, 2, 3], 30)
    speculative_greedy(target, draft, [1, 2, 3], 30)
    assert len(target.made) == len(target.addresses) == 2
    assert len(draft.made) == len(draft.addresses) == 1
