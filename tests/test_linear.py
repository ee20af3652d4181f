"""model/linear.py: packed or plain, the logits and the ids are the same; and nn.Linear stays where there is no packing."""
import copy

import pytest
import torch

import model.linear
from decoding import autoregressive, speculative_greedy
from model import GPT2, GPT2Config
from model.linear import PACKED, PackedLinear, fastest, pack
from weights import load_model

CONFIG = GPT2Config(n_layer=3, n_head=4, n_embd=64, n_vocab=301, n_ctx=80)
HERE = torch.backends.mkldnn.is_available()
needs_packing = pytest.mark.skipif(not HERE, reason="this PyTorch has no oneDNN")


def plain(dtype=torch.float32, seed=0):
    """Weights large enough that every one of them shows in the logits."""
    gpt2 = GPT2(CONFIG).to(dtype).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(seed)
    for weight in gpt2.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    return gpt2


@pytest.fixture
def packed(monkeypatch):
    """The same weights packed, whatever is faster here."""
    monkeypatch.setattr(model.linear, "fastest", lambda device, dtype: PACKED)
    return pack(plain())


def layers(gpt2):
    return [layer for block in gpt2.h for layer in (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj)]


@needs_packing
@pytest.mark.parametrize("batch, rows", [(1, n) for n in range(1, 10)] + [(1, 64), (3, 5)])
def test_logits_are_the_same(packed, batch, rows):
    tokens = torch.arange(batch * (7 + rows)).view(batch, -1)
    want = plain()(tokens)
    cache = packed.new_cache(7 + rows, batch)
    packed(tokens[:, :7], cache, last=0)
    torch.testing.assert_close(packed(tokens[:, 7:], cache), want[:, 7:], rtol=0, atol=1e-4)
    torch.testing.assert_close(packed(tokens), want, rtol=0, atol=1e-4)


@needs_packing
def test_ids_are_the_same(packed):
    want = autoregressive(plain(), [1, 2, 3], 70).tokens
    assert autoregressive(packed, [1, 2, 3], 70).tokens == want
    for gamma in (1, 4, 8):
        assert speculative_greedy(packed, pack(plain(seed=1)), [1, 2, 3], 70, gamma=gamma).tokens == want
        assert speculative_greedy(packed, packed, [1, 2, 3], 70, gamma=gamma).corrections == 0


@needs_packing
def test_the_weights_are_kept_once_and_can_be_had_back(packed):
    assert all(isinstance(layer, PackedLinear) and layer.weight.is_mkldnn for layer in layers(packed))
    want = plain().state_dict()
    assert packed.state_dict().keys() == want.keys()
    assert all(torch.equal(weight, want[name]) for name, weight in packed.state_dict().items())
    assert sum(weight.numel() for weight in packed.parameters()) == sum(weight.numel() for weight in want.values())


@needs_packing
def test_a_copy_is_a_plain_model(packed):
    tokens = torch.arange(12)[None]
    unpacked = copy.deepcopy(packed)
    assert not any(isinstance(layer, PackedLinear) for layer in layers(unpacked))
    assert torch.equal(unpacked(tokens), plain()(tokens))
    assert torch.equal(unpacked.double()(tokens), plain().double()(tokens))
    unpacked.requires_grad_(True)(tokens).sum().backward()
    assert all(weight.grad is not None for weight in unpacked.parameters())


@needs_packing
def test_a_packed_model_refuses_to_be_converted(packed):
    packed.float().to("cpu").eval()  # these change nothing
    for conversion in (torch.float64, torch.bfloat16, "meta"):
        with pytest.raises(RuntimeError, match="deepcopy"):
            pack(plain()).to(conversion)


@pytest.fixture
def fresh_choice():
    fastest.cache_clear()
    yield
    fastest.cache_clear()


@pytest.mark.parametrize("missing", ["_linear_pointwise", "_reorder_linear_weight"])
def test_without_the_operator_nn_linear_stays(monkeypatch, fresh_choice, missing):
    class Operators:
        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return getattr(operators, name)

    operators = torch.ops.mkldnn
    monkeypatch.setattr(torch.ops, "mkldnn", Operators())
    gpt2 = pack(plain())
    assert gpt2.linear == "nn.Linear (no packing for float32 here)"
    assert torch.equal(gpt2(torch.arange(9)[None]), plain()(torch.arange(9)[None]))


@pytest.mark.parametrize("packed_seconds, name", [(1, PACKED), (3, "nn.Linear (packing gains nothing here)")])
@needs_packing
def test_the_faster_one_is_chosen(monkeypatch, fresh_choice, packed_seconds, name):
    monkeypatch.setattr(model.linear, "seconds", lambda products, dtype: (packed_seconds, 2))
    assert pack(plain()).linear == name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_number_format_runs(dtype):
    gpt2, tokens = pack(plain(dtype)), torch.arange(9)[None]
    logits = gpt2(tokens)
    assert gpt2.linear == fastest("cpu", dtype) and logits.dtype == dtype
    want = plain(dtype)(tokens)
    torch.testing.assert_close(logits, want, rtol=0, atol=16 * torch.finfo(dtype).eps * want.abs().max().item())


def test_plain_is_plain():
    for gpt2 in (pack(plain(), "plain"), load_model("tales-small", linear="plain")):
        assert gpt2.linear == "nn.Linear"
        assert all(type(layer) is torch.nn.Linear for layer in layers(gpt2))


def test_choosing_leaves_the_global_random_state_alone(fresh_choice):
    before = torch.random.get_rng_state()
    pack(plain())
    state = torch.random.get_rng_state()
    torch.random.set_rng_state(before)
    plain()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_step_allocates_no_cache(monkeypatch):
    """A run makes its cache once, and the memory stays where it is."""
    gpt2 = load_model("tales-small")
    made = []
    new_cache = gpt2.new_cache
    monkeypatch.setattr(gpt2, "new_cache", lambda capacity: made.append(new_cache(capacity)) or made[-1])
    addresses = set()
    forward = gpt2.forward

    def watched(tokens, cache, last):
        addresses.add((cache.keys.data_ptr(), cache.values.data_ptr()))
        return forward(tokens, cache, last)

    monkeypatch.setattr(gpt2, "forward", watched)
    autoregressive(gpt2, [1, 2, 3], 30)
    speculative_greedy(gpt2, load_model("tales-small"), [1, 2, 3], 30)
    assert len(made) == len(addresses) == 2
