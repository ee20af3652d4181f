"""When two greedy texts part: is it a near-tie, which rounding explains, or a mistake?"""
import copy

import pytest
import torch

from decoding import autoregressive
from decoding.compare import Difference, first_difference, identity_line
from decoding.coupling import Coupled, SharedNoise
from decoding.feed import Uncached
from decoding.proof.toys import tiny_pair
from decoding.result import Generation, Round
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


def written(text, *sizes):
    """The run that wrote this text in rounds of so many tokens, all but one of them drafted."""
    rounds = []
    for size in sizes or (len(text),) * bool(text):
        *drafted, bonus = text[:size]
        rounds.append(Round(drafted, len(drafted), bonus, "bonus", (99, 99), None, None, 0.0))
        text = text[size:]
    return Generation(rounds, max(sizes, default=0))


def audited(model, baseline, text, *sizes, shared=False):
    return first_difference(model, model, PROMPT, baseline, written(text, *sizes), shared)


@pytest.mark.parametrize("dtype, gap, moved, word", [
    (torch.float32, 0, 2**-20, "near-tie"),
    (torch.float32, 2**-20, 2**-19, "near-tie"),  # the block prefers token 5, by as much
    (torch.float32, 2**-15, 2**-14, "DIFFERENT"),  # 16 eps of 8 are 2**-16: no rounding
    (torch.bfloat16, 2**-4, 2**-3, "near-tie"),
    (torch.bfloat16, 2.0, 4.0, "DIFFERENT"),  # 16 eps of 8 are 1
    (torch.float64, 2**-20, 2**-19, "DIFFERENT"),
])
def test_a_token_that_its_block_prefers(dtype, gap, moved, word):
    difference = audited(tied_model(gap, moved, dtype), [4, 4, 4], [4, 5, 5], 1, 2)
    assert (difference.index, difference.baseline, difference.speculative) == (1, 4, 5)
    assert difference.gap == gap
    assert difference.limit == min(2 * abs(moved), 16 * torch.finfo(dtype).eps * 8)
    assert difference.verdict == word


@pytest.mark.parametrize("dtype, gap, moved", [
    (torch.float32, 0, 0), (torch.float32, 2**-19, 2**-20), (torch.float32, 2**-20, -(2**-20)),
    (torch.bfloat16, 2**-4, 2**-5)])
def test_a_token_that_its_own_block_does_not_prefer_is_a_mistake_however_near(dtype, gap, moved):
    model = tied_model(gap, moved, dtype)
    difference = audited(model, [4, 4, 4], [4, 4, 5])
    assert (difference.index, difference.gap, difference.limit) == (2, gap, None)
    assert difference.verdict == "DIFFERENT"
    assert audited(model, [4, 4, 4], [4, 4, 5], shared=True).verdict == "near-tie"


@pytest.mark.parametrize("gap, moved, word", [
    (2**-19, 0, "DIFFERENT"), (2**-19, 2**-20, "near-tie"),  # twice what a block moves
    (2**-18, 2**-20, "DIFFERENT"), (2**-15, 2**-15, "DIFFERENT")])
def test_of_shared_passes_only_the_gap_is_looked_at(gap, moved, word):
    difference = audited(tied_model(gap, moved), [4, 4, 4], [4, 4, 5], shared=True)
    assert difference.limit == min(2 * moved, 2**-16) and difference.verdict == word


def test_a_plain_loop_that_is_wrong_is_noticed_too():
    difference = audited(tied_model(1), [4, 5, 4], [4, 4, 4])
    assert (difference.index, difference.baseline, difference.speculative) == (1, 5, 4)
    assert difference.limit is None and difference.verdict == "DIFFERENT"


def test_every_token_after_a_near_tie_is_checked():
    model, sizes = tied_model(2**-20, 2**-19), (1, 2, 1)  # only a longer block prefers token 5
    near = audited(model, [4, 4, 4, 4], [4, 5, 5, 4], *sizes)
    assert (near.index, near.verdict) == (1, "near-tie")
    for token, gap in ((6, 7), (5, 2**-20)):
        wrong = audited(model, [4, 4, 4, 4], [4, 5, 5, token], *sizes)
        assert (wrong.index, wrong.baseline, wrong.speculative) == (3, 4, token)
        assert (wrong.gap, wrong.verdict) == (gap, "DIFFERENT")


def test_the_text_s_own_logits_decide():
    """Two texts that part by a wrong token: later ones are right after it, or not."""
    model, _ = tiny_pair()
    plain = autoregressive(model, PROMPT, 8).tokens
    wrong = (plain[3] + 1) % 24
    text = [*plain[:3], wrong, *autoregressive(model, PROMPT + plain[:3] + [wrong], 4).tokens]
    logits = model(torch.tensor([PROMPT + plain[:3]]))[0, -1]
    difference = audited(model, plain, text)
    assert (difference.index, difference.baseline, difference.speculative) == (3, plain[3], wrong)
    assert difference.gap == pytest.approx((logits[plain[3]] - logits[wrong]).item())


def test_the_same_ids_are_no_difference():
    assert audited(None, [4, 5], [4, 5]) is None
    assert audited(None, [], []) is None


def test_one_text_may_end_before_the_other():
    for baseline, speculative in (([4, 5], [4]), ([4], [4, 5])):
        difference = audited(None, baseline, speculative)
        assert difference.index == 1 and difference.verdict == "DIFFERENT"
        assert {difference.baseline, difference.speculative} == {None, 5}


def test_a_model_needs_no_cache_and_no_dtype_of_its_own():
    class Odd(Unsteady):
        """Where an odd number of tokens is read."""

        def forward(self, tokens, cache=None, last=None, place=None):
            self.moved = 2**-19 * (tokens.shape[1] % 2)
            return super().forward(tokens, cache, last, place)

    model = Odd(CONFIG).requires_grad_(False)
    model.load_state_dict(tied_model(2**-20).state_dict())
    # the plain loop reads 3 tokens and 4, the other loop 5 tokens at once
    difference = audited(Uncached(model), [5, 4, 5], [5, 5, 5], 3)
    assert (difference.index, difference.verdict) == (1, "near-tie")


def test_tokens_that_must_not_follow_do_not_disturb():
    class Masked(Unsteady):
        def forward(self, *given, **named):
            return super().forward(*given, **named).index_fill(-1, torch.tensor([7]), -torch.inf)

    model = tied_model(2**-20, 2**-19)
    masked = Masked(CONFIG).requires_grad_(False)
    masked.load_state_dict(model.state_dict())
    masked.moved = model.moved
    assert audited(masked, [4, 4], [4, 5]) == audited(model, [4, 4], [4, 5])
    assert audited(model, [4, 4], [4, 5]).verdict == "near-tie"
    never = audited(masked, [4, 4], [4, 7])
    assert never.gap is None and never.verdict == "DIFFERENT"


def test_under_shared_noise_the_noise_counts():
    noise = SharedNoise(torch.Generator().manual_seed(0))
    model = Coupled(tied_model(0, 2**-20), Sampling(0.5), noise)
    row = noise.row(len(PROMPT) + 1, 8, torch.device("cpu"))
    logits = torch.tensor([0, 0, 0, 0, 8.0, 8.0, 1, 0]) / 0.5
    best = int((logits + row).argmax())
    assert best in (4, 5)
    expected = (logits + row)[best] - (logits + row)[6]
    for shared in (False, True):
        difference = audited(model, [best, best], [best, 6], shared=shared)
        assert difference.gap == pytest.approx(expected.item())
        assert difference.verdict == "DIFFERENT"
    assert difference.limit == pytest.approx(2 * 2 * 2**-20)


def test_under_shared_noise_a_block_can_prefer_another_token():
    noise = SharedNoise(torch.Generator().manual_seed(0))
    row = noise.row(len(PROMPT), 8, torch.device("cpu"))
    gap = 8.0 + 0.5 * (row[5] - row[4]).item()  # then both have the same score, to some decimals
    model = tied_model(0, 2**-10)
    model.wte.weight[5, 0] = 16 - gap - 2**-11
    coupled = Coupled(model, Sampling(0.5), noise)
    difference = audited(coupled, [4, 5], [5, 5])
    assert (difference.index, difference.baseline, difference.speculative) == (0, 4, 5)
    assert difference.gap == pytest.approx(2**-10, rel=0.01) and difference.limit is not None


@pytest.mark.parametrize("sampling", [Sampling(0.5, top_k=1), Sampling(0.5, top_p=0.5)])
@pytest.mark.parametrize("gap, moved, word", [
    (0, 2**-19, "near-tie"), (2**-20, 2**-19, "near-tie"), (0.5, 1, "DIFFERENT")])
def test_rounding_can_decide_which_token_is_cut_off(sampling, gap, moved, word):
    """Tokens 4 and 5 have all the mass, token 4 half of it or more: only that one is kept."""
    model = tied_model(gap, moved)
    model.wte.weight[[0, 1, 2, 3, 6, 7], 0] = -100
    coupled = Coupled(model, sampling, SharedNoise(torch.Generator().manual_seed(0)))
    difference = audited(coupled, [4, 4], [4, 5])
    assert (difference.index, difference.speculative) == (1, 5)
    assert difference.verdict == word


def test_the_model_is_as_it_was():
    model = tied_model(2**-20, dtype=torch.bfloat16)
    before = copy.deepcopy(model.state_dict())
    audited(model, [4], [5])
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("difference, words", [
    (Difference(7, 4, 5, 0.5, 0.01), "<4> (baseline), <5> (speculative), logit gap 0.5, "
                                     "rounding explains 0.01: DIFFERENT"),
    (Difference(7, 4, 5, 0.01, 0.5), "<4> (baseline), <5> (speculative), logit gap 0.01, "
                                     "rounding explains 0.5: near-tie; the text after it is the "
                                     "plain loop's choice, too"),
    (Difference(7, 4, 5, 0.01, None), "<4> (baseline), <5> (speculative), logit gap 0.01, but a "
                                      "pass, repeated, chooses another token: DIFFERENT"),
    (Difference(7, None, 5, None, None), "the end (baseline), <5> (speculative): DIFFERENT"),
    (Difference(7, 4, 5, None, 0.1), "<4> (baseline), <5> (speculative): DIFFERENT"),
])
def test_the_line_says_where_and_why(difference, words):
    line = f"ids identical: no, difference at new token 7: {words}"
    assert identity_line(difference, lambda token: f"<{token}>") == line


def test_the_line_says_that_there_is_no_difference():
    assert identity_line(None, str) == "ids identical: yes"
