"""Quantized by block, a token's logits depend on what was drafted beside it: not lossless."""
import copy
import warnings

import pytest
import torch

from decoding import autoregressive, speculative_greedy
from decoding.proof.quantized import difference_beside_others, quantize
from weights import load_model, load_tokenizer

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def bundled():
    return (load_model("tales-large"), load_model("tales-small"),
            load_tokenizer("tales-large").encode(PROMPT))


def test_logits_depend_on_the_block_only_where_it_is_scaled_as_a_whole(bundled):
    target, _, prompt = bundled
    drafted = load_tokenizer("tales-large").encode(" there was a king")[:4]
    by_block, by_row, right = (difference_beside_others(model, prompt, drafted) for model in (
        quantize(target, by_row=False), quantize(target, by_row=True), target))
    assert right < 1e-5 and by_row < 1e-3
    assert by_block > 10 * max(right, by_row) and by_block > .01


@pytest.mark.slow
@pytest.mark.parametrize("by_row", [False, True])
def test_greedy_speculation_is_the_plain_loop_only_where_rows_are_scaled(bundled, by_row):
    """In float64, where rounding hardly ever decides which whole number is the nearest."""
    target, draft = (copy.deepcopy(model).double() for model in bundled[:2])
    quantized, encode = quantize(target, by_row), load_tokenizer("tales-large").encode
    prompts = [encode(text) for text in ("A king had three sons", "In the forest",
                                         "One day the fox")]
    same = [speculative_greedy(quantized, draft, prompt, 20, gamma=4).tokens
            == autoregressive(quantized, prompt, 20).tokens for prompt in prompts]
    assert all(same) if by_row else not all(same)


def test_pytorchs_own_scales_by_block():
    """The claim about `quantize_dynamic`, where this PyTorch still has it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 64, generator=generator) * torch.tensor([1., 2, 3, 4, 5])[:, None]
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        try:
            layer = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear})
            block, alone = layer(rows)[0], layer(rows[:1])[0]
        except (AttributeError, RuntimeError):
            return  # not in this PyTorch, or not on this processor
    assert (block - alone).abs().max() > .01 * alone.abs().max()
