"""model/fast: packed or plain, the logits and the ids are the same.

And nn.Linear stays where there is no packing.
"""
import copy
import itertools
import math
import os
import platform
import re
import subprocess
import sys
import time
import weakref

import pytest
import torch
from torch import nn

from decoding import autoregressive, speculative_greedy
from decoding.proof.toys import Spy
from model import GPT2, GPT2Config
from model.decoder import TiedHead
from model.fast import preferences, timing
from model.fast.layouts import (
    CHOICES,
    MOST_TOKENS,
    Layout,
    give_head,
    head_name,
    layout_for,
    layout_name,
    pack,
)
from model.fast.onednn import OneDNNLinear
from model.fast.output_heads import ConvolvedHead, OneTokenHead, TurnedHead
from model.fast.packed import has_kernel
from model.fast.preferences import ONEDNN, PLAIN, ROWS, SLABS, STRIPS, layers_by_preference
from model.fast.rows import RowHead, RowLinear
from model.fast.slabs import SlabLinear
from model.fast.strips import StripLinear
from model.fast.timing import sample
from model.meta import without_memory
from weights import load_fast, load_model

CONFIG = GPT2Config(n_layer=3, n_head=4, n_embd=64, n_vocab=301, n_ctx=80)


needs_onednn = pytest.mark.skipif(not preferences.onednn_is_there(torch.float32),
                                  reason="no oneDNN here, or not for float32")


def plain(dtype=torch.float32, seed=0):
    """Weights large enough that every one of them shows in the logits."""
    gpt2 = GPT2(CONFIG).to(dtype).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in gpt2.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    return gpt2


@pytest.fixture(params=[
    (STRIPS, TiedHead, 5), (STRIPS, TurnedHead, 5), (ROWS, RowHead, 1), (SLABS, TurnedHead, 2),
    pytest.param((ONEDNN, ConvolvedHead, 5), marks=needs_onednn),
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
    kind = {STRIPS: StripLinear, ROWS: RowLinear, SLABS: SlabLinear,
            ONEDNN: OneDNNLinear}[layout_name(packed)]
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


@pytest.mark.parametrize("kind", [
    StripLinear, RowLinear, SlabLinear, pytest.param(OneDNNLinear, marks=needs_onednn)])
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
    layer.to_plain().zero_()
    assert torch.equal(layer.to_plain(), want)


@needs_onednn
def test_without_a_kernel_for_the_format_onednn_is_refused(monkeypatch):
    """It would return wrong numbers."""
    monkeypatch.setattr("model.fast.onednn.has_kernel", lambda dtype: False)
    assert not preferences.onednn_is_there(torch.float32)


@needs_onednn
def test_a_choice_among_other_layouts_is_another_choice(choose, monkeypatch):
    timed = choose(STRIPS)
    pack(plain())
    monkeypatch.setattr(preferences, "onednn_is_there", lambda dtype: False)
    pack(plain())
    layers = [candidates for candidates, *_ in timed if STRIPS in candidates]
    assert [ONEDNN in candidates for candidates in layers] == [True, False]


def test_what_makes_no_sense_is_refused(packed):
    with pytest.raises(ValueError, match="'fast'"):
        pack(plain(), "fast")
    with pytest.raises(ValueError, match="tokens_per_pass must be at least 1, not 0"):
        pack(plain(), tokens_per_pass=0)
    for layout in ("auto", "plain"):
        with pytest.raises(ValueError, match="packed already"):
            pack(packed, layout)


@pytest.fixture
def clock(monkeypatch):
    """Layers that take a given time, and a machine that is as busy as is said."""
    class Clock:
        now = waited = 0.0

        def layer(self, one, more, waits=0.0):
            def forward(x):
                self.now += one if x.shape[1] == 1 else more
                self.waited += waits
            return [forward]

    clock = Clock()
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    monkeypatch.setattr(timing, "seconds_waited", lambda: clock.waited)
    return clock


@pytest.mark.parametrize("other, taken", [
    ((.010, .010), "preferred"), ((.009, .009), "preferred"), ((.020, .004), "preferred"),
    ((.005, .005), "other"), ((.014, .001), "other"), ((.001, .001, .001), None),
    ((.020, .020, .001), None)])
def test_the_preferred_one_is_left_for_a_clear_margin_over_clean_samples(clock, other, taken):
    """Seconds for one token and for five, and how long threads waited for a core meanwhile."""
    candidates = {"preferred": clock.layer(.010, .010), "other": clock.layer(*other)}
    assert timing.choose(candidates, torch.ones(1), [1], 5) == taken


def test_a_busy_machine_is_no_judge(clock):
    candidates = {"preferred": clock.layer(.010, .010, .005), "other": clock.layer(.001, .001)}
    assert timing.choose(candidates, torch.ones(1), [1], 5) is None


def test_where_there_is_no_other_nothing_is_timed(clock):
    assert timing.choose({"preferred": clock.layer(1, 1, 1)}, torch.ones(1), [1], 5) == "preferred"
    assert clock.now == 0


@pytest.mark.parametrize("intel, want", [
    (True, (nn.Linear, TiedHead)), (False, (StripLinear, OneTokenHead))])
def test_a_model_gets_its_preferred_layout_from_a_busy_machine_and_nothing_is_kept(
        monkeypatch, intel, want):
    choices, busy = {}, itertools.count()
    monkeypatch.setattr(preferences, "on_intel", lambda: intel)
    monkeypatch.setattr(timing, "seconds_waited", lambda: next(busy))
    layout = layout_for(plain(), "cpu", choices=choices)
    layer = layout.layer(torch.ones(96, 8), None) if layout.layer else nn.Linear(8, 96)
    assert (type(layer), layout.head) == want
    assert choices == {}
    monkeypatch.setattr(timing, "seconds_waited", lambda: 0)
    layout_for(plain(), "cpu", choices=choices)
    assert len(choices) == 2


NO_KERNEL = "bfloat16 where the processor has no kernel for it"


@pytest.mark.parametrize("intel, dtype, tokens, large, want", [
    (True, torch.float32, 1, True, [PLAIN, STRIPS, ONEDNN, ROWS, SLABS]),
    (True, torch.float32, 5, False, [PLAIN, STRIPS, ONEDNN, ROWS, SLABS]),
    (True, torch.float32, 5, True, [ONEDNN, STRIPS, PLAIN, ROWS, SLABS]),
    (False, torch.float32, 2, True, [SLABS, STRIPS, ONEDNN, PLAIN, ROWS]),
    (False, torch.float32, 2, False, [STRIPS, SLABS, ONEDNN, PLAIN, ROWS]),
    (False, torch.float32, 5, False, [STRIPS, SLABS, ONEDNN, PLAIN, ROWS]),
    (False, torch.float32, 5, True, [ONEDNN, STRIPS, PLAIN, ROWS, SLABS]),
    (False, torch.bfloat16, 1, True, [ONEDNN, PLAIN, ROWS, STRIPS]),
    (True, torch.bfloat16, 1, True, [ROWS, ONEDNN, PLAIN, STRIPS]),
    (True, torch.bfloat16, 2, True, [ONEDNN, PLAIN, ROWS, STRIPS]),
    (False, torch.bfloat16, 5, False, [ONEDNN, PLAIN, ROWS, STRIPS]),
    (False, NO_KERNEL, 1, True, [PLAIN, ROWS, STRIPS]),
    (True, NO_KERNEL, 1, True, [ROWS, PLAIN, STRIPS]),
    (True, torch.float16, 2, True, [ONEDNN, PLAIN, ROWS, STRIPS])])
def test_which_layout_is_preferred_is_fixed(monkeypatch, intel, dtype, tokens, large, want):
    """The table of model/fast/README.md."""
    monkeypatch.setattr(preferences, "on_intel", lambda: intel)
    monkeypatch.setattr(preferences, "has_amx", lambda: intel)
    kernel = dtype != NO_KERNEL
    dtype = dtype if kernel else torch.bfloat16
    monkeypatch.setattr(preferences, "onednn_is_there", lambda dtype: kernel)
    monkeypatch.setattr(preferences, "LARGE", 1 if large else 2**40)
    assert list(layers_by_preference(plain(dtype), tokens)) == want


@pytest.mark.parametrize("dtype, want", [
    (torch.float32, ["OneTokenHead", "TurnedHead", "TiedHead", "ConvolvedHead"]),
    (torch.float16, ["TiedHead", "TurnedHead"])])
def test_which_head_is_preferred_is_fixed(monkeypatch, dtype, want):
    monkeypatch.setattr(preferences, "on_intel", lambda: False)
    monkeypatch.setattr(preferences, "is_there", lambda *head: True)
    assert preferences.heads_by_preference(torch.ones(9, 8, dtype=dtype), ONEDNN, 5) == want


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_waiting_for_a_core_is_noticed():
    """Two processes on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            before, end = timing.seconds_waited(), time.monotonic() + 60
            while timing.seconds_waited() - before < .05 and time.monotonic() < end:
                sum(range(1000))
            other.kill()
    finally:
        os.sched_setaffinity(0, cores)
    assert timing.seconds_waited() - before >= .05


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 17, 200])
def test_onednn_packs_the_weight_and_never_rearranges_it(rows, dtype, capfd):
    """As its own log tells: to rearrange it would take longer than the product."""
    if not has_kernel(dtype):
        with pytest.raises(RuntimeError, match="no kernel"):
            OneDNNLinear(torch.ones(480, 320, dtype=dtype), None)
        return
    weight, x = torch.ones(480, 320, dtype=dtype), torch.ones(1, rows, 320, dtype=dtype)
    layer = OneDNNLinear(weight, None)
    assert layer.weight.layout == torch._mkldnn
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        y = layer(x)
    assert torch.equal(y, torch.full((1, rows, 480), 320, dtype=dtype))
    log = capfd.readouterr().out
    assert "inner_product" in log and "ref:any" not in log
    if platform.machine() == "x86_64":
        assert not re.search(r"wei[:_]\w+:\w*:blocked:(ab|ba):", log)  # as nn.Linear has it
    assert "480x320" not in log  # the weight, which only a rearrangement would name


@needs_onednn
@pytest.mark.parametrize("head", [TurnedHead, OneTokenHead, ConvolvedHead])
def test_a_head_never_copies_the_embedding(head):
    wte = torch.ones(997, 64)
    for rows in (1, 2, 5):
        with torch.autograd.profiler.profile(record_shapes=True) as profile:
            head()(torch.ones(1, rows, 64), wte)
        copied = [event.input_shapes[0] for event in profile.function_events
                  if event.name in ("aten::copy_", "aten::clone")]
        assert all(math.prod(shape) < wte.numel() for shape in copied), (rows, copied)


@needs_onednn
@pytest.mark.parametrize("n_out, n_in", [(30, 20), (7, 1), (1, 7), (1280, 64), (256, 64), (50, 96)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [StripLinear, SlabLinear, OneDNNLinear])
def test_any_matrix_can_be_packed(n_out, n_in, dtype, kind):
    """The last strip is filled up, and slabs are as many as divide the inputs."""
    needed = {StripLinear: True, SlabLinear: dtype == torch.float32}
    if not needed.get(kind, has_kernel(dtype)):
        return
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(*shape, generator=generator).to(dtype)
                       for shape in ((n_out, n_in), (n_out,), (2, 70, n_in)))
    layer = kind(weight, bias)
    assert torch.equal(layer.to_plain(), weight)
    for rows in (1, 2, 3, 5, 8, 33, 70):
        want = torch.nn.functional.linear(*(t.double() for t in (x[:, :rows], weight, bias)))
        limit = 4 * torch.finfo(dtype).eps * want.abs().max().item()
        torch.testing.assert_close(layer(x[:, :rows]).double(), want, rtol=0, atol=limit)


@needs_onednn
@pytest.mark.parametrize("missing, layout, head", [
    ("_linear_pointwise", STRIPS, TurnedHead), ("_reorder_linear_weight", STRIPS, ConvolvedHead),
    ("_convolution_pointwise", ONEDNN, OneTokenHead)])
def test_without_the_operators_the_choice_is_among_the_others(monkeypatch, choose, missing,
                                                              layout, head):
    class Operators:
        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return getattr(operators, name)

    operators = torch.ops.mkldnn
    monkeypatch.setattr(torch.ops, "mkldnn", Operators())
    for favourite in (ONEDNN, PLAIN):
        choose(favourite, STRIPS, ConvolvedHead, OneTokenHead, TurnedHead)
        gpt2 = pack(plain())
        want = (PLAIN, TurnedHead) if favourite == PLAIN else (layout, head)
        assert (layout_name(gpt2), type(gpt2.head)) == want
        for tokens in (torch.arange(1)[None], torch.arange(9)[None]):
            torch.testing.assert_close(gpt2(tokens), plain()(tokens), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", [STRIPS, pytest.param(ONEDNN, marks=needs_onednn)])
def test_a_layout_can_be_forced(choose, name):
    timed = choose(PLAIN)
    assert layout_name(pack(plain(), name)) == layout_name(
        load_fast("tales-small", layout=name)) == name
    assert not any(PLAIN in candidates for candidates, *_ in timed)


@pytest.mark.parametrize("dtype, device, line", [
    (torch.float64, "cpu", "there is no layout onednn for float64 on this cpu"),
    (torch.float32, "meta", "there is no layout onednn for float32 on this meta")])
def test_a_forced_layout_that_is_not_here_is_refused(dtype, device, line):
    with pytest.raises(ValueError, match=line):
        pack(plain(dtype).to(device), ONEDNN)


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
    for tokens in (5, 3, 5, 500, MOST_TOKENS, 1):
        assert layout_name(load_fast("tales-small", tokens_per_pass=tokens)) == PLAIN
    load_fast("tales-small", dtype=torch.bfloat16, tokens_per_pass=5)
    want = [(5, torch.float32), (3, torch.float32), (MOST_TOKENS, torch.float32),
            (1, torch.float32), (5, torch.bfloat16)]
    layers = [timing for timing in timed if PLAIN in timing[0]]
    assert [(tokens, dtype) for _, tokens, dtype, _ in layers] == want
    assert layout_name(load_fast("tales-small", device="meta", tokens_per_pass=2)) == PLAIN
    load_fast("tales-small", layout="plain", tokens_per_pass=2)
    load_model("tales-small")
    assert len(timed) == 2 * len(want)  # the layers and the head of each


@needs_onednn
def test_a_default_device_does_not_change_what_is_timed(choose):
    timed = choose(ONEDNN, ConvolvedHead)
    with torch.device("meta"):
        layout = layout_for(GPT2(CONFIG), "cpu")
    heads = ["OneTokenHead", "TurnedHead", "TiedHead", "ConvolvedHead"]
    assert [candidates for candidates, *_ in timed] == [[STRIPS, SLABS, ONEDNN, PLAIN, ROWS], heads]
    assert [device for *_, device in timed] == ["cpu", "cpu"]
    assert layout == Layout(OneDNNLinear, ConvolvedHead)


def test_the_layers_that_are_timed_are_no_more_than_the_model_has_and_on_the_cpu():
    tiny = GPT2Config(n_layer=2, n_head=1, n_embd=16, n_vocab=30, n_ctx=8)
    with torch.device("meta"):
        timed = sample(without_memory(GPT2, tiny, torch.float64))
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
    assert len(timed) == 2 + 1  # they have the same embedding
    keys = [key for key in CHOICES if key.startswith("layers")]
    assert all(str([(192, 64), (64, 64), (width, 64), (64, width)]) in key
               for key, width in zip(keys, (96, 32), strict=True))


def test_plain_is_plain():
    loaded = load_fast("tales-small", layout="plain"), load_model("tales-small")
    for gpt2 in (pack(plain(), "plain"), *loaded):
        assert layout_name(gpt2) == PLAIN
        assert all(type(layer) is torch.nn.Linear for layer in layers(gpt2))
        assert type(gpt2.head) is TiedHead


def test_timing_leaves_the_global_random_state_alone():
    CHOICES.clear()
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
    target, draft = (Watched(load_fast("tales-small", layout="plain")) for _ in range(2))
    autoregressive(target, [1, 2, 3], 30)
    speculative_greedy(target, draft, [1, 2, 3], 30)
    assert len(target.made) == len(target.addresses) == 2
    assert len(draft.made) == len(draft.addresses) == 1


def test_a_head_can_be_named_and_replaced():
    gpt2 = pack(plain(), PLAIN)
    give_head(gpt2, TurnedHead)
    assert head_name(gpt2) == "TurnedHead" and type(gpt2.head) is TurnedHead
    give_head(gpt2, None)
    assert head_name(gpt2) == "TurnedHead"
    whole = torch.nn.Module()
    whole.share = gpt2  # as in a Leader
    give_head(whole, TiedHead)
    assert head_name(whole) == head_name(gpt2) == "TiedHead"
    own = torch.nn.Module()
    own.head = torch.nn.Linear(2, 2)
    give_head(own, TiedHead)
    assert head_name(own) == "own" and type(own.head) is torch.nn.Linear
