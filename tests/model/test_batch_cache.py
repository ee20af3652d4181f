"""Texts of different lengths read in one pass: every row of logits is that of the text alone."""
import random

import pytest
import torch

from model import GPT2, GPT2Config
from model.batch_cache import BatchCache, admit, read_texts
from model.fast.layouts import layout_name, pack
from model.fast.preferences import STRIPS

CONFIG = GPT2Config(n_layer=2, n_head=2, n_embd=32, n_vocab=50, n_ctx=40)


def make_model(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    model = GPT2(CONFIG)
    for weight in model.parameters():
        weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(dtype)
    for name, weight in model.named_parameters():
        weight.data *= 0.3 if name.startswith("h.") else 1
    return model.requires_grad_(False).eval()


def alone(model, text, last):
    return model.forward(torch.tensor([text]), last=last)[0]


def largest_error(model, steps, numbers):
    """Let texts come, grow, lose their ends and leave at random; compare with each read alone."""
    cache, texts, worst = BatchCache(model.new_cache(CONFIG.n_ctx + 10, 8)), [], 0.0
    for _ in range(steps):
        if len(texts) < 6 and (not texts or numbers.random() < 0.3):
            new = [[numbers.randrange(50) for _ in range(numbers.randint(1, 9))]
                   for _ in range(numbers.randint(1, 3))]
            admit(model, cache, new)
            texts += new
        unread = [[numbers.randrange(50) for _ in range(numbers.randint(0, 5))] for _ in texts]
        whole = [text[:length] + ids for text, length, ids in zip(texts, cache.lengths, unread)]
        whole = [text[:CONFIG.n_ctx] for text in whole]
        unread = [text[length:] for text, length in zip(whole, cache.lengths)]
        last = [numbers.randint(0, len(ids)) for ids in unread]
        if not any(unread):
            continue
        logits = read_texts(model, cache, unread, last)
        assert cache.lengths == [len(text) for text in whole]
        wanted = [alone(model, text, n) for text, n in zip(whole, last) if n]
        if wanted:
            worst = max(worst, (logits - torch.cat(wanted)).abs().max().item())
        cache.truncate([max(0, len(text) - numbers.randint(0, 4)) for text in whole])
        stay = [b for b in range(len(whole)) if numbers.random() < 0.8]
        cache.select(stay)
        texts = [whole[b] for b in stay]
    return worst


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_that_of_its_text_alone(seed):
    assert largest_error(make_model(), 40, random.Random(seed)) < 1e-9


@pytest.mark.parametrize("tokens_per_pass", [1, 5, 40])
def test_in_a_faster_layout(choose, tokens_per_pass):
    choose(STRIPS)
    packed = pack(make_model(torch.float32), tokens_per_pass=tokens_per_pass)
    assert layout_name(packed) == STRIPS
    assert largest_error(packed, 40, random.Random(5)) < 1e-3


def test_what_is_stored_is_what_one_text_stores():
    model, texts = make_model(), [[1, 2, 3, 4], [5], [6, 7]]
    cache = BatchCache(model.new_cache(10, 3))
    cache.add(3)
    read_texts(model, cache, texts, [0, 0, 0])
    cache.select([0, 2])
    for b, text in ((0, texts[0]), (1, texts[2])):
        single = model.new_cache(10)
        model.forward(torch.tensor([text]), single, last=0)
        for ours, theirs in zip(cache.layers, single.layers):
            difference = ours[:, b, :, :len(text)] - theirs[:, 0, :, :len(text)]
            assert difference.abs().max() < 1e-12


def test_the_lengths():
    model = make_model()
    cache = BatchCache(model.new_cache(10, 4))
    admit(model, cache, [[1, 2, 3], [], [4]])
    assert cache.lengths == [2, 0, 0]
    admit(model, cache, [[1, 2]])
    assert cache.lengths == [2, 0, 0, 1]
    cache.truncate([1, 5, 0, 1])  # more than there is forgets nothing
    assert cache.lengths == [1, 0, 0, 1]
    with pytest.raises(ValueError, match="shorter"):
        cache.truncate([1])  # a length for each text
    cache.select([0, 3])
    assert cache.lengths == [1, 1]
