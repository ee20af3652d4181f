"""When two greedy texts part: is it a near-tie, which rounding explains, or a mistake?"""
import pytest
import torch

from decoding.compare import Difference, first_difference, identity_line, score
from decoding.coupling import Coupled, SharedNoise
from decoding.sampling import Sampling
from model import GPT2, GPT2Config
from model.fast.layouts import pack

PROMPT = [1, 2, 3]
CONFIG = GPT2Config(n_layer=1, n_head=1, n_embd=32, n_vocab=8, n_ctx=16)


def tied_model(gap, dtype=torch.float32):
    """A model that gives tokens 4 and 5 almost the same logit everywhere.

    They are `gap` of the largest logit apart.
    """
    torch.manual_seed(0)
    model = GPT2(CONFIG).eval().requires_grad_(False)
    model.ln_f.weight.zero_()
    # so that a logit is the first number of its token's embedding
    model.ln_f.bias.copy_(torch.eye(32)[0])
    model.wte.weight[:, 0] = torch.tensor([0, 0, 0, 0, 8.0, 8.0 * (1 - gap), 1, 0])
    return model.to(dtype)


@pytest.mark.parametrize("dtype, gap, word", [
    (torch.float32, 0, "near-tie"),
    (torch.float32, 2**-21, "near-tie"),
    (torch.float32, 2**-18, "DIFFERENT"),  # 16 eps are 2**-19
    (torch.bfloat16, 2**-6, "near-tie"),
    (torch.bfloat16, 2**-2, "DIFFERENT"),  # 16 eps are 2**-3
    (torch.float64, 2**-21, "DIFFERENT"),
])
def test_the_verdict(dtype, gap, word):
    difference = first_difference(tied_model(gap, dtype), PROMPT, [4, 6, 4], [4, 6, 5])
    assert (difference.index, difference.baseline, difference.speculative) == (2, 4, 5)
    assert difference.gap == pytest.approx(8 * gap)
    assert difference.limit == 16 * torch.finfo(dtype).eps * 8
    assert difference.verdict == word


def test_the_candidates_are_scored_after_what_both_texts_share():
    model = GPT2(CONFIG).requires_grad_(False)
    logits = model(torch.tensor([[*PROMPT, 6, 0]]))[0, -1]
    difference = first_difference(model, PROMPT, [6, 0, 4, 1], [6, 0, 5, 1])
    assert difference.gap == pytest.approx(abs(logits[4] - logits[5]).item())
    largest = logits.abs().max().item()
    assert difference.limit == pytest.approx(16 * torch.finfo(torch.float32).eps * largest)


def test_the_same_ids_are_no_difference():
    assert first_difference(None, PROMPT, [4, 5], [4, 5]) is None
    assert first_difference(None, PROMPT, [], []) is None


def test_one_text_may_end_before_the_other():
    for baseline, speculative in (([4, 5], [4]), ([4], [4, 5])):
        difference = first_difference(None, PROMPT, baseline, speculative)
        assert difference.index == 1 and difference.verdict == "DIFFERENT"
        assert {difference.baseline, difference.speculative} == {None, 5}


@pytest.mark.parametrize("layout", ["auto", "plain"])
def test_half_precision_is_scored_again_in_float32(layout):
    model = pack(tied_model(2**-5, torch.bfloat16), layout)
    logits, _ = score(model, PROMPT)
    assert logits.dtype == torch.float32
    assert (logits[4] - logits[5]).item() == 8 * 2**-5
    assert model.wpe.weight.dtype == torch.bfloat16  # the model itself is as it was


def test_under_shared_noise_the_noise_counts():
    noise = SharedNoise(torch.Generator().manual_seed(0))
    difference = first_difference(Coupled(tied_model(0), Sampling(0.5), noise), PROMPT, [4], [5])
    row = noise.row(len(PROMPT), 8, torch.device("cpu"))
    assert difference.gap == pytest.approx(abs(row[4] - row[5]).item())
    assert difference.limit == 2 * 16 * torch.finfo(torch.float32).eps * 8


@pytest.mark.parametrize("difference, words", [
    (Difference(7, 4, 5, 0.5, 0.01), "<4> (baseline), <5> (speculative), logit gap 0.5, "
                                     "rounding explains 0.01: DIFFERENT"),
    (Difference(7, 4, 5, 0.01, 0.5), "<4> (baseline), <5> (speculative), logit gap 0.01, "
                                     "rounding explains 0.5: near-tie"),
    (Difference(7, None, 5, None, None), "the end (baseline), <5> (speculative): DIFFERENT"),
])
def test_the_line_says_where_and_why(difference, words):
    line = f"ids identical: no, first difference at new token 7: {words}"
    assert identity_line(difference, lambda token: f"<{token}>") == line


def test_the_line_says_that_there_is_no_difference():
    assert identity_line(None, str) == "ids identical: yes"
