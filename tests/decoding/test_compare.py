"""When two greedy texts part: is it a near-tie, which rounding explains, or a mistake?"""
import copy

import pytest
import torch

from decoding import autoregressive
from decoding.compare import Difference, first_difference, identity_line, read_both_ways
from decoding.coupling import Coupled, SharedNoise
from decoding.feed import Uncached
from decoding.proof.toys import Spy, tiny_pair
from decoding.sampling import Sampling
from model import GPT2, GPT2Config

PROMPT = [1, 2, 3]
CONFIG = GPT2Config(n_layer=1, n_head=1, n_embd=32, n_vocab=8, n_ctx=16)


class Unsteady(GPT2):
    """Gives token 5 a little more, or less, where several tokens are read at once."""

    moved = 0.0

    def forward(self, tokens, cache=None, last=None, place=None):
        logits = super().forward(tokens, cache, last, place)
        logits[..., 5] += self.moved * (tokens.shape[1] > 1)
        return logits


def tied_model(gap, moved=0.0, dtype=torch.float32):
    """A model that everywhere gives token 4 the logit 8, and token 5 `gap` less.

    Reading a block moves the latter by `moved`.
    """
    torch.manual_seed(0)
    model = Unsteady(CONFIG).eval().requires_grad_(False)
    model.moved = moved
    model.ln_f.weight.zero_()
    # so that a logit is the first number of its token's embedding
    model.ln_f.bias.copy_(torch.eye(32)[0])
    model.wte.weight[:, 0] = torch.tensor([0, 0, 0, 0, 8.0, 8.0 - gap, 1, 0])
    return model.to(dtype)


@pytest.mark.parametrize("dtype, gap, moved, word", [
    (torch.float32, 0, 0, "near-tie"),
    (torch.float32, 2**-19, 0, "DIFFERENT"),
    (torch.float32, 2**-19, 2**-20, "near-tie"),  # twice what a block moves
    (torch.float32, 2**-19, -(2**-20), "near-tie"),
    (torch.float32, 2**-18, 2**-20, "DIFFERENT"),
    (torch.float32, 2**-15, 2**-15, "DIFFERENT"),  # 16 eps of 8 are 2**-16: no rounding
    (torch.bfloat16, 2**-4, 2**-5, "near-tie"),
    (torch.bfloat16, 2**-3, 2**-5, "DIFFERENT"),
    (torch.bfloat16, 4.0, 4.0, "DIFFERENT"),  # 16 eps of 8 are 1
    (torch.float64, 2**-20, 0, "DIFFERENT"),
])
def test_the_verdict(dtype, gap, moved, word):
    difference = first_difference(tied_model(gap, moved, dtype), PROMPT, [4, 4, 4], [4, 4, 5])
    assert (difference.index, difference.baseline, difference.speculative) == (2, 4, 5)
    assert difference.gap == gap
    assert difference.limit == min(2 * abs(moved), 16 * torch.finfo(dtype).eps * 8)
    assert difference.verdict == word


def test_a_plain_loop_that_is_wrong_is_noticed_too():
    difference = first_difference(tied_model(1), PROMPT, [4, 5, 4], [4, 4, 4])
    assert (difference.index, difference.gap, difference.verdict) == (1, 1, "DIFFERENT")


def test_every_token_after_a_near_tie_is_checked():
    model = tied_model(2**-20, 2**-20)
    near = first_difference(model, PROMPT, [4, 4, 4, 4, 4], [4, 5, 4, 5, 4])
    assert (near.index, near.verdict) == (1, "near-tie")
    wrong = first_difference(model, PROMPT, [4, 4, 4, 4, 4], [4, 5, 4, 5, 6])
    assert (wrong.index, wrong.baseline, wrong.speculative) == (4, 4, 6)
    assert (wrong.gap, wrong.verdict) == (7, "DIFFERENT")


@pytest.mark.parametrize("block", [1, 2, 3, 5, 99])
def test_the_text_is_read_alone_and_in_blocks(block):
    target, _ = tiny_pair()
    spy, text = Spy(target), [5, 6, 7, 8, 9, 10, 11]
    rows = list(read_both_ways(spy, PROMPT, text, block))
    truth = target(torch.tensor([PROMPT + text[:-1]]))[0, -len(text):]
    for way in zip(*rows, strict=True):
        torch.testing.assert_close(torch.stack(way), truth)
    sizes = [len(ids) for _, ids in spy.reads[2:]]  # after both prefills
    blocks = [min(block, len(text) - start) for start in range(0, len(text), block)]
    assert sizes == [size for n in blocks for size in [n, *[1] * n]]


def test_the_text_s_own_logits_decide():
    """Two texts that part by a wrong token: later ones are right after it, or not."""
    model, _ = tiny_pair()
    plain = autoregressive(model, PROMPT, 8).tokens
    wrong = (plain[3] + 1) % 24
    text = [*plain[:3], wrong, *autoregressive(model, PROMPT + plain[:3] + [wrong], 4).tokens]
    logits = model(torch.tensor([PROMPT + plain[:3]]))[0, -1]
    difference = first_difference(model, PROMPT, plain, text)
    assert (difference.index, difference.baseline, difference.speculative) == (3, plain[3], wrong)
    assert difference.gap == pytest.approx((logits[plain[3]] - logits[wrong]).item())


def test_the_same_ids_are_no_difference():
    assert first_difference(None, PROMPT, [4, 5], [4, 5]) is None
    assert first_difference(None, PROMPT, [], []) is None


def test_one_text_may_end_before_the_other():
    for baseline, speculative in (([4, 5], [4]), ([4], [4, 5])):
        difference = first_difference(None, PROMPT, baseline, speculative)
        assert difference.index == 1 and difference.verdict == "DIFFERENT"
        assert {difference.baseline, difference.speculative} == {None, 5}


def test_a_model_needs_no_cache_and_no_dtype_of_its_own():
    model = tied_model(2**-20, 2**-20)
    difference = first_difference(Uncached(model), PROMPT, [4, 4], [4, 5], block=2)
    assert difference.verdict == "near-tie"


def test_tokens_that_must_not_follow_do_not_disturb():
    class Masked(Unsteady):
        def forward(self, *given, **named):
            return super().forward(*given, **named).index_fill(-1, torch.tensor([7]), -torch.inf)

    model = tied_model(2**-20, 2**-20)
    masked = Masked(CONFIG).requires_grad_(False)
    masked.load_state_dict(model.state_dict())
    masked.moved = model.moved
    assert (first_difference(masked, PROMPT, [4, 4], [4, 5])
            == first_difference(model, PROMPT, [4, 4], [4, 5]))
    never = first_difference(masked, PROMPT, [4, 4], [4, 7])
    assert never.gap is None and never.verdict == "DIFFERENT"


def test_under_shared_noise_the_noise_counts():
    noise = SharedNoise(torch.Generator().manual_seed(0))
    model = Coupled(tied_model(0, 2**-20), Sampling(0.5), noise)
    row = noise.row(len(PROMPT) + 1, 8, torch.device("cpu"))
    logits = torch.tensor([0, 0, 0, 0, 8.0, 8.0, 1, 0]) / 0.5
    best = int((logits + row).argmax())
    assert best in (4, 5)
    difference = first_difference(model, PROMPT, [best, best], [best, 6])
    expected = (logits + row)[best] - (logits + row)[6]
    assert difference.gap == pytest.approx(expected.item())
    assert difference.limit == pytest.approx(2 * 2 * 2**-20)


@pytest.mark.parametrize("sampling", [Sampling(0.5, top_k=1), Sampling(0.5, top_p=0.5)])
@pytest.mark.parametrize("gap, word", [(0, "near-tie"), (2**-20, "near-tie"), (0.5, "DIFFERENT")])
def test_rounding_can_decide_which_token_is_cut_off(sampling, gap, word):
    """Tokens 4 and 5 have all the mass, token 4 half of it or more: only that one is kept."""
    model = tied_model(gap, 2**-20)
    model.wte.weight[[0, 1, 2, 3, 6, 7], 0] = -100
    coupled = Coupled(model, sampling, SharedNoise(torch.Generator().manual_seed(0)))
    difference = first_difference(coupled, PROMPT, [4, 4], [4, 5])
    assert (difference.index, difference.speculative) == (1, 5)
    assert difference.verdict == word


def test_the_model_is_as_it_was():
    model = tied_model(2**-20, dtype=torch.bfloat16)
    before = copy.deepcopy(model.state_dict())
    first_difference(model, PROMPT, [4], [5])
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("difference, words", [
    (Difference(7, 4, 5, 0.5, 0.01), "<4> (baseline), <5> (speculative), logit gap 0.5, "
                                     "rounding explains 0.01: DIFFERENT"),
    (Difference(7, 4, 5, 0.01, 0.5), "<4> (baseline), <5> (speculative), logit gap 0.01, "
                                     "rounding explains 0.5: near-tie; the text after it is the "
                                     "plain loop's choice, too"),
    (Difference(7, None, 5, None, None), "the end (baseline), <5> (speculative): DIFFERENT"),
    (Difference(7, 4, 5, None, 0.1), "<4> (baseline), <5> (speculative): DIFFERENT"),
])
def test_the_line_says_where_and_why(difference, words):
    line = f"ids identical: no, difference at new token 7: {words}"
    assert identity_line(difference, lambda token: f"<{token}>") == line


def test_the_line_says_that_there_is_no_difference():
    assert identity_line(None, str) == "ids identical: yes"
