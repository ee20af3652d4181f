"""Every family beside transformers' own, on small random checkpoints in the official layout."""
import pytest
import torch
import torch.nn.functional as F

from decoding import Sampling, autoregressive, speculative_greedy
from decoding.proof.distributions import by_definition, by_enumeration, difference
from model import attention, rotary
from model.attention import attend, block_mask, near_mask
from model.batch_cache import BatchCache, read_texts
from model.config import Config
from model.decoder import Place
from model.families import (
    OPT,
    GPTNeo,
    GPTNeoConfig,
    GPTNeoX,
    Llama,
    LlamaConfig,
    gpt_neo,
    gpt_neox,
    opt,
)
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import LAYOUTS, pack
from model.meta import without_memory
from model.rotary import Rope
from model.tree import chain, tree_place
from tests.model.tiny_families import KINDS, LENGTH, text, write_tiny
from weights import load_fast, load_model
from weights.checkpoint import MODELS

CACHED, CLOSE = 270, 1e-4
gelu = F.gelu


@pytest.fixture(scope="module", params=KINDS)
def tiny(request, tmp_path_factory):
    """Our model, its folder, transformers' model, a text (2, LENGTH), and its logits."""
    folder = tmp_path_factory.mktemp("tiny") / request.param
    theirs, tokens = write_tiny(folder, request.param), text()
    with torch.no_grad():
        logits = theirs(tokens).logits
    return load_model(folder), folder, theirs, tokens, logits


def after_cached(model, tokens, sizes):
    """Logits of the last tokens, read in blocks of these sizes again and again."""
    room = (LENGTH,) if isinstance(model, Graphed) else (LENGTH, len(tokens))
    cache = model.new_cache(*room)
    model.forward(tokens[:, :CACHED], cache, last=0)
    parts, start = [], CACHED
    while start < LENGTH:
        for size in sizes:
            if start < LENGTH:
                parts.append(model.forward(tokens[:, start:start + size], cache))
                start += size
    return torch.cat(parts, dim=1)


def close(found, want):
    return (found - want).abs().max() < CLOSE


def test_a_whole_text(tiny):
    model, _, _, tokens, want = tiny
    assert close(model(tokens), want)
    assert close(model(tokens, model.new_cache(LENGTH, 2)), want)
    assert close(model(tokens, last=3), want[:, -3:])


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_blocks_after_cached_tokens(tiny, size):
    model, _, _, tokens, want = tiny
    assert close(after_cached(model, tokens, [size]), want[:, CACHED:])


def test_rewinding(tiny):
    model, _, _, tokens, want = tiny
    cache = model.new_cache(LENGTH, 2)
    model(tokens[:, :CACHED], cache, last=0)
    for rejected, size in [(1, 9), (9, 2), (5, 1), (2, 5)]:
        start = cache.length
        model((tokens[:, start:start + rejected] + 1) % 131, cache)
        cache.truncate(start)
        found = model(tokens[:, start:start + size], cache)
        assert close(found, want[:, start:start + size])


def test_fixed_shapes(tiny):
    model, _, _, tokens, want = tiny
    graphed = Graphed(model, (1, 5), n_ctx=LENGTH)
    assert graphed.cache.capacity == 336 and graphed.config.n_ctx == LENGTH
    assert close(after_cached(graphed, tokens[:1], [1, 5, 3]), want[:1, CACHED:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(tiny, layout):
    model, folder, _, tokens, want = tiny
    try:
        fast = load_fast(folder, layout=layout, tokens_per_pass=5)
    except ValueError as error:
        assert layout == "onednn" and "there is no layout" in str(error)
        pytest.skip("no oneDNN here")
    assert close(after_cached(fast, tokens, [5, 1, 2]), want[:, CACHED:])
    assert fast.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(weight, model.state_dict()[key])
               for key, weight in fast.state_dict().items())
    assert close(pack(load_model(folder), layout)(tokens[:1, -20:]), model(tokens[:1, -20:]))


def test_a_tree_reads_each_path_as_if_alone(tiny):
    model, _, _, tokens, _ = tiny
    parents = [-1, 0, 0, 1, 1, 2, -1]
    ids = torch.tensor([[5, 9, 13, 17, 21, 25, 29]])
    cache = model.new_cache(LENGTH)
    model(tokens[:1, :CACHED], cache, last=0)
    found = model(ids, cache, place=tree_place(parents, CACHED))[0]
    for leaf in range(len(parents)):
        path, node = [], leaf
        while node >= 0:
            path, node = [node, *path], parents[node]
        alone = model(torch.cat([tokens[:1, :CACHED], ids[:, path]], dim=1), last=1)[0, 0]
        assert close(found[leaf], alone)
    cache.truncate(CACHED)
    in_a_row = model(ids, cache, place=tree_place(chain(7), CACHED))
    assert close(in_a_row, model(torch.cat([tokens[:1, :CACHED], ids], dim=1), last=7))


def test_texts_of_different_lengths_in_one_pass(tiny):
    model, _, _, tokens, want = tiny
    cache = BatchCache(model.new_cache(LENGTH, 2))
    cache.add(2)
    a, b = tokens.tolist()
    read_texts(model, cache, [a[:CACHED], b[:20]], [0, 0])
    found = read_texts(model, cache, [a[CACHED:CACHED + 5], b[20:23]], [5, 3])
    assert close(found, torch.cat([want[0, CACHED:CACHED + 5], want[1, 20:23]]))


def test_half_precision_is_no_worse_than_transformers_own(tiny):
    _, folder, theirs, tokens, want = tiny
    # Loaded anew: `.to(bfloat16)` would round the reference's frequencies, too. torch_dtype: as old
    # versions of transformers call it.
    reference = type(theirs).from_pretrained(folder, torch_dtype=torch.bfloat16)
    ours = load_model(folder, dtype=torch.bfloat16)
    errors = [(model(tokens).float() - want).square().mean().sqrt()
              for model in (ours, lambda tokens: reference(tokens).logits)]
    assert errors[0] <= 1.1 * errors[1]


def test_greedy_ids_and_speculation(tiny):
    model, _, theirs, tokens, _ = tiny
    prompt = tokens[:1, :240]
    want = theirs.generate(prompt, max_new_tokens=40, do_sample=False, eos_token_id=None,
                           attention_mask=torch.ones_like(prompt))[0, 240:].tolist()
    assert autoregressive(model, prompt[0].tolist(), 40).tokens == want
    generator = torch.Generator().manual_seed(0)
    draft = load_model(tiny[1])
    for weight in draft.parameters():
        weight.add_(0.02 * torch.randn(weight.shape, generator=generator))
    for gamma in (1, 4):
        run = speculative_greedy(model, draft, prompt[0].tolist(), 40, gamma=gamma)
        assert run.tokens == want and len(run.rounds) > 1


def test_names_are_the_checkpoints(tiny):
    model, _, theirs, *_ = tiny
    prefix = {"gpt2": "transformer.", "gpt_neo": "transformer.", "opt": "model.decoder.",
              "gpt_neox": "gpt_neox.", "llama": "model."}[theirs.config.model_type]
    head = {"gpt_neox": "embed_out.weight"}.get(theirs.config.model_type, "lm_head.weight")
    names = {head if name == "lm_head.weight" else name.removeprefix(prefix)
             for name in theirs.state_dict() if not name.endswith((".bias_", "inv_freq"))}
    tied = head not in model.state_dict()
    assert set(model.state_dict()) == names - ({head} if tied else set())


@pytest.mark.parametrize("kind, place, name, value", [
    ("gpt2", F, "gelu", lambda x, approximate: gelu(x)),
    ("gpt-neo", F, "gelu", lambda x, approximate: gelu(x)),
    ("pythia", F, "gelu", lambda x: gelu(x, approximate="tanh")),
    ("gpt-neo", gpt_neo, "near_mask", lambda mask, *_: mask),
    ("gpt-neo", gpt_neo, "near_mask", lambda mask, positions, window, like: near_mask(
        mask, positions, window + 1, like)),
    ("gpt-neo", gpt_neo, "attend", lambda *read, scale: attend(*read)),
    ("opt-125m", opt, "OFFSET", 0), ("opt-350m", opt, "OFFSET", 0),
    ("pythia", gpt_neox.Attention, "forward", lambda self, x, *more: blocks_of_three(
        self, x, *more)),
    ("llama-3.2", rotary, "frequencies", lambda rope, device: plain_frequencies(rope)),
    ("llama-3.1", rotary, "frequencies", lambda rope, device: plain_frequencies(rope)),
    ("deepseek", rotary, "frequencies", lambda rope, device: plain_frequencies(rope)),
])
def test_each_fact_shows_in_the_logits(tmp_path, monkeypatch, kind, place, name, value):
    theirs, tokens = write_tiny(tmp_path / kind, kind), text()
    model = load_model(tmp_path / kind)
    with torch.no_grad():
        want = theirs(tokens).logits
    assert close(model(tokens), want)
    monkeypatch.setattr(place, name, value)
    assert (model(tokens) - want).abs().max() > 3 * CLOSE


def blocks_of_three(self, x, cos_sin, mask, cache, layer):
    """Pythia's attention if its fused matrix were cut as GPT-2's is."""
    q, k, v = (attention.heads(part, self.d_head)
               for part in self.query_key_value(x).chunk(3, dim=-1))
    kv = torch.stack([rotary.turn(k, *cos_sin), v])
    return self.dense(attend(rotary.turn(q, *cos_sin), kv, mask, cache, layer))


def plain_frequencies(rope):
    """Without any slowing down."""
    return 1 / rope.theta ** (torch.arange(0, rope.d_turned, 2).float() / rope.d_turned)


@pytest.mark.parametrize("width, rope, kept, mixed, last, total", [
    (64, Rope(64, 5e5, 32.0, 8192), 15, 3, 9.418306490e-08, 2.9682024),
    (128, Rope(128, 5e5, 32.0, 8192), 29, 6, 7.672314695e-08, 5.3851823)])
def test_llama3_frequencies(width, rope, kept, mixed, last, total):
    """Reference values, computed by transformers."""
    found = rotary.frequencies(rope, torch.device("cpu"))
    plain = plain_frequencies(rope)
    assert (found == plain).sum() == kept
    assert ((found < plain) & (found > plain / 31.9)).sum() == mixed
    assert found[-1].item() == pytest.approx(last, rel=1e-6)
    assert found.sum().item() == pytest.approx(total, rel=1e-6)


def official(kind, **sizes):
    """The number of weights of a model of official size, none of which is made."""
    model = without_memory(MODELS[kind][1], MODELS[kind][0](**sizes), torch.float32)
    return sum(weight.numel() for weight in model.parameters())


def rope(d_turned):
    return Rope(d_turned, 10000.0)


@pytest.mark.parametrize("kind, n_layer, n_embd, n_head, n_vocab, more, want", [
    ("opt", 12, 768, 12, 50272, {"n_mlp": 3072, "n_word": 768}, 125_239_296),
    ("opt", 24, 1024, 16, 50272, {"n_mlp": 4096, "n_word": 512, "pre_norm": False}, 331_196_416),
    ("gpt_neo", 12, 768, 12, 50257, {}, 125_198_592),
    ("gpt_neo", 24, 2048, 16, 50257, {}, 1_315_575_808),
    ("gpt_neox", 6, 512, 8, 50304, {"n_mlp": 2048, "rope": rope(16)}, 70_426_624),
    ("gpt_neox", 24, 1024, 16, 50304, {"n_mlp": 4096, "rope": rope(16)}, 405_334_016),
    ("gpt_neox", 32, 2560, 32, 50304, {"n_mlp": 10240, "rope": rope(20)}, 2_775_208_960),
    ("llama", 16, 2048, 32, 128256, {"n_mlp": 8192, "n_kv_head": 8, "rope": rope(64), "eps": 1e-5,
                                     "tied": True}, 1_235_814_400),
    ("llama", 28, 3072, 24, 128256, {"n_mlp": 8192, "n_kv_head": 8, "rope": rope(128), "eps": 1e-5,
                                     "tied": True}, 3_212_749_824),
    ("llama", 32, 4096, 32, 32256, {"n_mlp": 11008, "n_kv_head": 32, "rope": rope(128),
                                    "eps": 1e-6}, 6_740_512_768)])
def test_official_sizes_have_their_number_of_weights(kind, n_layer, n_embd, n_head, n_vocab, more,
                                                     want):
    assert official(kind, n_layer=n_layer, n_head=n_head, n_embd=n_embd, n_vocab=n_vocab,
                    n_ctx=2048, **more) == want


def test_sizes_that_no_model_can_have_are_refused():
    for wrong in ({"n_kv_head": 3}, {"n_mlp": 0}, {"n_head": 5}):
        sizes = {"n_layer": 1, "n_head": 4, "n_embd": 8, "n_vocab": 9, "n_ctx": 9, "n_kv_head": 2,
                 "n_mlp": 8, "rope": rope(2), "eps": 1e-5, **wrong}
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LlamaConfig(**sizes)
    assert issubclass(LlamaConfig, Config) and all(
        kind.__mro__[1].__name__ == "Decoder" for kind in (OPT, GPTNeo, GPTNeoX, Llama))


def test_the_caller_sees_to_positions(tmp_path):
    """A place that is not in a row: GPT-Neo's window goes by positions, not by columns."""
    write_tiny(tmp_path / "gpt-neo", "gpt-neo")
    model, tokens = load_model(tmp_path / "gpt-neo"), text(batch=1)
    want = model(tokens[:, :300])
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    sees = order <= order[:, None]
    mask = torch.zeros(300, 300).masked_fill(~sees, -torch.inf)
    found = model(tokens[:, order], place=Place(order, mask))
    assert close(found, want[:, order])


def test_where_the_window_begins_to_hide():
    """A window of 4, where one more visible token shows: every length, at once and one by one."""
    torch.manual_seed(0)
    model = GPTNeo(GPTNeoConfig(n_layer=2, n_head=2, n_embd=16, n_vocab=131, n_ctx=10, window=4))
    model, tokens = model.requires_grad_(False).eval(), text()[:, :10]
    want, cache = model(tokens), model.new_cache(10, 2)
    for n in range(1, 11):
        assert close(model(tokens[:, :n], last=1), want[:, n - 1:n])
        assert close(model(tokens[:, n - 1:n], cache), want[:, n - 1:n])


@pytest.mark.parametrize("T, mask", [(1, None), (3, None), (3, block_mask(2, 3, torch.zeros(1)))])
def test_shared_keys_are_scored_like_repeated_ones(T, mask):
    generator = torch.Generator().manual_seed(0)
    S = T if mask is None else mask.shape[1]
    q = torch.randn(2, 4, T, 8, generator=generator)
    kv = torch.randn(2, 2, 2, S, 8, generator=generator)
    want = attend(q, kv.repeat_interleave(2, dim=2), mask, None, 0, scale=1.0)
    assert close(attend(q, kv, mask, None, 0, scale=1.0), want)


def test_shared_keys_whatever_memory_the_product_comes_in(monkeypatch):
    """A kernel may lay its result out by positions first, as some of CUDA's do."""
    generator = torch.Generator().manual_seed(0)
    q, kv = (torch.randn(shape, generator=generator) for shape in ((2, 4, 1, 8), (2, 2, 2, 5, 8)))
    want, product = attend(q, kv, None, None, 0), F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *given, **named: product(
        *given, **named).transpose(1, 2).contiguous().transpose(1, 2))
    assert torch.equal(attend(q, kv, None, None, 0), want)


@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_distribution_is_the_targets(gamma, temperature):
    """Turned keys that are shared, and forgotten again: by enumeration of the real loop."""
    target, draft, sampling = three_words(0), three_words(1), Sampling(temperature)
    found = by_enumeration(target, draft, 3, gamma, sampling)
    assert difference(found, by_definition(target, 3, sampling)) < 1e-12


def three_words(seed):
    """A Llama of three words in float64."""
    torch.manual_seed(seed)
    model = Llama(LlamaConfig(n_layer=2, n_head=4, n_embd=16, n_vocab=3, n_ctx=8, n_kv_head=2,
                              n_mlp=16, rope=Rope(4, 100.0), eps=1e-5)).double().eval()
    for weight in model.requires_grad_(False).parameters():
        weight.copy_(torch.randn(weight.shape, dtype=torch.float64) * 0.8)
    return model
