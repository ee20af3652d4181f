"""model/ against transformers' GPT-2 on random weights, and against its own uncached forward."""
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from transformers import GPT2Config as ReferenceConfig
from transformers import GPT2LMHeadModel

from model import GPT2, OFFICIAL_CONFIGS, GPT2Config, KVCache, Place

TINY = GPT2Config(n_layer=3, n_head=3, n_embd=48, n_vocab=101, n_ctx=40)

OUTSIDE_THE_BLOCKS = ["wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"]
# stored [in, out]
TRANSPOSED = ["attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"]
AS_STORED = ["ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias",
             "attn.c_attn.bias", "attn.c_proj.bias", "mlp.c_fc.bias", "mlp.c_proj.bias"]


def official_names(n_layer):
    inside = [f"h.{i}.{name}" for i in range(n_layer) for name in TRANSPOSED + AS_STORED]
    return OUTSIDE_THE_BLOCKS + inside


def in_our_layout(name, tensor):
    return tensor.T if name.endswith(tuple(TRANSPOSED)) else tensor


def reference_and_ours(config, dtype):
    """The same random weights in both models.

    The reference's own initial weights hide mistakes: biases of 0, gains of 1, attention all but
    uniform. These let every part be seen: attention picks few tokens, and small embeddings make the
    eps of the first LayerNorm count.
    """
    reference = GPT2LMHeadModel(ReferenceConfig(
        n_layer=config.n_layer, n_head=config.n_head, n_embd=config.n_embd,
        vocab_size=config.n_vocab, n_positions=config.n_ctx, attn_implementation="eager",
        bos_token_id=0, eos_token_id=0)).to(dtype).eval()
    weights = reference.transformer.state_dict()
    generator = torch.Generator().manual_seed(0)
    for name in official_names(config.n_layer):
        weight = weights[name]  # shares its memory with the parameter
        noise = torch.randn(weight.shape, generator=generator)
        if name.startswith(("wte", "wpe")):
            weight.copy_(0.05 * noise)
        elif name.endswith("bias"):
            weight.copy_(0.2 * noise)
        elif "ln_" in name:
            weight.copy_(1 + 0.2 * noise)
        else:
            weight.copy_(2 * noise / weight.shape[0] ** 0.5)
    # no eval(): it has no dropout, so training and inference are the same
    ours = GPT2(config).to(dtype)
    ours.load_state_dict({name: in_our_layout(name, weights[name])
                          for name in official_names(config.n_layer)})
    return reference, ours


def tiny():
    return reference_and_ours(TINY, torch.float64)[1]


def same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def random_tokens(config, T, batch=1, seed=1):
    return torch.randint(config.n_vocab, (batch, T), generator=torch.Generator().manual_seed(seed))


def feed(model, cache, tokens, size):
    """Logits for all of `tokens`, read into the cache in blocks of `size`."""
    return torch.cat([model(block, cache) for block in tokens.split(size, dim=1)], dim=1)


@torch.no_grad()
def differences_from_reference(config, dtype, T, batch, kept=7):
    """Largest difference of any logit from the reference's, for each way of reading a text."""
    reference, ours = reference_and_ours(config, dtype)
    text, other = random_tokens(config, T, batch), random_tokens(config, T, batch, seed=2)
    spliced = torch.cat([text[:, :kept], other[:, kept:]], dim=1)
    want, want_spliced = reference(text).logits, reference(spliced).logits
    errors = {"uncached": ours(text) - want,
              "whole prompt into a cache": ours(text, ours.new_cache(T, batch)) - want,
              "token by token": feed(ours, ours.new_cache(T, batch), text, 1) - want}
    for size in range(1, 10):
        cache = ours.new_cache(T, batch)
        prefix = ours(text[:, :kept], cache)
        rest = feed(ours, cache, text[:, kept:], size)
        errors[f"blocks of {size} after a prefix"] = torch.cat([prefix, rest], dim=1) - want
        cache.truncate(kept)
        rest = feed(ours, cache, other[:, kept:], size)
        errors[f"blocks of {size} after a truncation"] = rest - want_spliced[:, kept:]
    return {way: error.abs().max().item() for way, error in errors.items()}


def above(limit, differences):
    # nan is above, too
    return {way: difference for way, difference in differences.items() if not difference < limit}


def test_logits_equal_the_reference_in_float32():
    assert above(1e-4, differences_from_reference(TINY, torch.float32, T=TINY.n_ctx, batch=3)) == {}


def test_logits_equal_the_reference_in_float64_to_rounding():
    differences = differences_from_reference(TINY, torch.float64, T=TINY.n_ctx, batch=3)
    assert above(1e-12, differences) == {}


@pytest.mark.slow
def test_logits_equal_the_reference_at_the_width_of_gpt2_small():
    config = dataclasses.replace(OFFICIAL_CONFIGS["gpt2"], n_layer=4)
    assert above(1e-4, differences_from_reference(config, torch.float32, T=16, batch=1)) == {}


def test_gradients_equal_the_reference():
    reference, ours = reference_and_ours(TINY, torch.float64)
    tokens = random_tokens(TINY, T=30, batch=2)
    for logits in (reference(tokens).logits, ours(tokens)):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    wanted = dict(reference.transformer.named_parameters())
    for name, weight in ours.named_parameters():
        assert weight.grad is not None and weight.grad.any(), name
        torch.testing.assert_close(weight.grad, in_our_layout(name, wanted[name].grad), rtol=1e-9,
                                   atol=1e-12, msg=name)


def test_names_are_the_official_checkpoints():
    assert sorted(GPT2(TINY).state_dict()) == sorted(official_names(TINY.n_layer))


@torch.no_grad()
def test_last_gives_exactly_the_last_rows_and_fills_the_cache_all_the_same():
    ours = tiny()
    tokens = random_tokens(TINY, T=13, batch=2)
    logits = ours(tokens)
    for start in (0, 5):  # positions already cached
        for last in range(12 - start + 1):
            cache = ours.new_cache(20, batch=2)
            if start:
                ours(tokens[:, :start], cache, last=0)
            rows = ours(tokens[:, start:12], cache, last)
            assert rows.shape == (2, last, TINY.n_vocab) and cache.length == 12
            same(rows, logits[:, 12 - last:12])
            same(ours(tokens[:, 12:], cache), logits[:, 12:])  # nothing is missing in the cache
            same(ours(tokens[:, :12], last=last), logits[:, 12 - last:12])
    for last in (-1, 14):
        with pytest.raises(ValueError, match=f"{last} of 13"):
            ours(tokens, last=last)


@torch.no_grad()
def test_cache_is_allocated_once_and_length_is_its_only_state():
    ours = GPT2(TINY).double()
    cache = ours.new_cache(capacity=23, batch=2)
    memory = cache.keys.data_ptr(), cache.values.data_ptr()
    # layers, batch, heads, capacity, d_head
    assert cache.keys.shape == cache.values.shape == (3, 2, 3, 23, 16)
    assert cache.keys.dtype == cache.values.dtype == torch.float64 and cache.capacity == 23
    for T, kept in ((9, 9), (1, 3), (20, 0), (23, 23)):
        before = cache.length
        ours(random_tokens(TINY, T, batch=2), cache)
        assert cache.length == before + T
        cache.truncate(kept)
        assert cache.length == kept
    assert (cache.keys.data_ptr(), cache.values.data_ptr()) == memory
    assert set(vars(cache)) == {"keys", "values", "layers", "length"}
    assert cache.layers[2].data_ptr() == cache.keys[2].data_ptr()  # the same memory


@torch.no_grad()
def test_what_lies_beyond_length_is_never_read():
    ours = tiny()
    tokens = random_tokens(TINY, T=20)
    cache = ours.new_cache(30)
    ours(tokens, cache)
    for kept in (13, 6, 0):
        cache.truncate(kept)
        cache.keys[:, :, :, kept:] = cache.values[:, :, :, kept:] = float("nan")
        same(ours(tokens[:, kept:], cache), ours(tokens)[:, kept:])


def test_truncate_refuses_what_makes_no_sense():
    cache = KVCache(TINY.n_layer, TINY.n_head, TINY.d_head, capacity=10)
    GPT2(TINY)(random_tokens(TINY, T=6), cache)
    for length in (-1, 7, 10):
        with pytest.raises(ValueError, match=f"length 6 to {length}"):
            cache.truncate(length)
        assert cache.length == 6
    with pytest.raises(ValueError, match="-1"):
        GPT2(TINY).new_cache(-1)


@torch.no_grad()
def test_a_forward_that_fails_leaves_the_cache_usable():
    ours = tiny()
    tokens, wrong = random_tokens(TINY, T=10), random_tokens(TINY, T=40, seed=2)
    cache = ours.new_cache(10)
    ours(tokens[:, :7], cache)

    def fails(error, message, tokens, last=None):
        with pytest.raises(error, match=message):
            ours(tokens, cache, last=last)
        assert cache.length == 7

    def cut(*_):
        raise InterruptedError("cut")

    fails(ValueError, "10 .* 11 ", wrong[:, :4])  # the cache's capacity
    fails(ValueError, "40 .* 41", wrong[:, :34])  # the model's context
    fails(ValueError, "4 of 3", wrong[:, :3], last=4)
    # two of three layers have stored their keys and values
    hook = ours.h[1].mlp.register_forward_pre_hook(cut)
    fails(InterruptedError, "cut", wrong[:, :3])
    hook.remove()
    same(ours(tokens[:, 7:], cache), ours(tokens)[:, 7:])


@torch.no_grad()
def test_the_context_is_used_to_its_last_position_and_no_further():
    ours = tiny()
    tokens = random_tokens(TINY, T=41)
    cache = ours.new_cache(50)
    for cache_or_none in (cache, None):
        with pytest.raises(ValueError, match=r"40 .* 41"):
            ours(tokens, cache_or_none)
    ours(tokens[:, :39], cache, last=0)
    same(ours(tokens[:, 39:40], cache), ours(tokens[:, :40], last=1))
    with pytest.raises(ValueError, match=r"40 .* 41"):
        ours(tokens[:, 40:], cache)
    assert cache.length == 40


@torch.no_grad()
def test_two_caches_on_one_model_do_not_disturb_each_other():
    ours = tiny()
    texts = random_tokens(TINY, T=24), random_tokens(TINY, T=24, seed=2)
    caches = ours.new_cache(24), ours.new_cache(40)
    wanted = [ours(text) for text in texts]
    for i in range(0, 24, 4):
        for text, cache, want, size in zip(texts, caches, wanted, (1, 4)):
            same(feed(ours, cache, text[:, i:i + 4], size), want[:, i:i + 4])


def test_official_sizes_have_the_official_number_of_parameters():
    with torch.device("meta"):
        counts = {name: sum(p.numel() for p in GPT2(config).parameters())
                  for name, config in OFFICIAL_CONFIGS.items()}
    assert counts == {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080,
                      "gpt2-xl": 1_557_611_200}
    for config in OFFICIAL_CONFIGS.values():
        # a wrong n_head would not change the counts
        assert (config.d_head, config.n_vocab, config.n_ctx) == (64, 50257, 1024)


def test_config_is_frozen_and_refuses_impossible_sizes():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TINY.n_layer = 4
    with pytest.raises(ValueError, match="48 is not divisible by n_head 5"):
        dataclasses.replace(TINY, n_head=5)
    for field in dataclasses.fields(GPT2Config):
        for value in ((0,) if field.name != "n_padding" else ()) + (-1, 1.5, "3", None):
            with pytest.raises(ValueError, match=f"{field.name} must be"):
                dataclasses.replace(TINY, **{field.name: value})


@torch.no_grad()
@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("T", [1, 6])
def test_a_place_that_is_a_plain_chain_changes_nothing(start, T):
    """Positions as a slice or as a tensor, and the mask from outside: the same logits and cache."""
    ours = tiny()
    tokens = random_tokens(TINY, start + T, batch=2)
    positions = torch.arange(start, start + T)
    hidden = torch.arange(start + T) > positions[:, None]
    mask = torch.zeros(T, start + T, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    places = Place(positions, mask), Place(positions.expand(2, T), mask.expand(2, 1, T, start + T))
    caches = [ours.new_cache(20, batch=2) for _ in range(3)]
    for cache, place in zip(caches, (None, *places)):
        if start > 0:
            ours(tokens[:, :start], cache, last=0)
        same(ours(tokens[:, start:], cache, place=place), ours(tokens)[:, start:])
        assert cache.length == start + T
        same(cache.keys, caches[0].keys)
        with pytest.raises(ValueError, match=f"last {T + 1} of {T}"):
            ours(tokens[:, start:], cache, last=T + 1, place=place)


@torch.no_grad()
def test_a_place_says_which_tokens_are_seen_and_where_they_stand():
    """Two branches after one text: each row is what its own branch says, read alone."""
    ours = tiny()
    text, branches = random_tokens(TINY, 5), torch.tensor([[7, 8]])
    cache = ours.new_cache(10)
    ours(text, cache, last=0)
    mask = torch.zeros(2, 7, dtype=torch.float64)
    mask[0, 6] = mask[1, 5] = -torch.inf  # neither sees the other
    both = ours(branches, cache, place=Place(torch.tensor([5, 5]), mask))
    for i in range(2):
        alone = ours(torch.cat([text, branches[:, i:i + 1]], dim=1), last=1)
        same(both[:, i:i + 1], alone)


@torch.no_grad()
def test_rows_of_padding_are_kept_and_never_drawn():
    padded = dataclasses.replace(TINY, n_padding=27)
    ours, more = GPT2(TINY).double(), GPT2(padded).double()
    state = ours.state_dict()
    state["wte.weight"] = torch.cat([state["wte.weight"], torch.full((27, 48), 9.0)])
    more.load_state_dict(state)
    tokens = random_tokens(TINY, T=9)
    assert more(tokens).shape == (1, 9, 101)
    same(more(tokens), ours(tokens))
    with pytest.raises(ValueError, match="n_padding must be a whole number of at least 0"):
        dataclasses.replace(TINY, n_padding=-1)


def test_a_model_says_where_it_is():
    ours = GPT2(TINY).bfloat16()
    assert (ours.device, ours.dtype) == (torch.device("cpu"), torch.bfloat16)
    assert ours.to("meta").device.type == "meta"
