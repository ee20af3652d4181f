"""What the models read, what the caches hold, and what a caller sees between two steps."""
import ast
import inspect
from itertools import zip_longest

import pytest
import torch

from decoding import (
    GREEDY,
    Sampling,
    autoregressive,
    autoregressive_rounds,
    baseline,
    speculative,
    speculative_greedy,
    speculative_rounds,
    speculative_sampling,
)
from decoding.acceptance import accept_greedy, accept_sampled
from decoding.feed import Uncached
from decoding.proof.toys import HashModel, Spy, Untouchable, random_prompt, tiny_pair
from decoding.sampling import UNCHANGED, to_probs
from tests.checks import check_run

PROMPT = random_prompt(5)
TARGET, DRAFT = tiny_pair()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sampled_rounds(target, draft, prompt, n, gamma=3, seed=0, sampling=UNCHANGED, **options):
    return speculative_rounds(target, draft, prompt, n, gamma=gamma, rule=accept_sampled,
                              sampling=sampling, generator=seeded(seed), **options)


def test_the_target_reads_the_prompt_once_and_then_the_last_token_and_the_draft():
    for n_prompt in (1, 2, 5):
        for gamma in (0, 1, 3):
            prompt, target = random_prompt(n_prompt), Spy(TARGET)
            g = speculative_greedy(target, DRAFT, prompt, 20, gamma=gamma)
            text, reads = list(prompt), [(0, prompt[:-1])] if n_prompt > 1 else []
            for r in g.rounds:
                reads.append((len(text) - 1, text[-1:] + r.drafted))
                text += r.emitted
            assert target.reads == reads


def test_the_draft_reads_what_it_has_not_read_and_its_own_tokens_but_the_last():
    for n_prompt in (1, 2, 5):
        for gamma in (1, 3):
            prompt, draft = random_prompt(n_prompt), Spy(DRAFT)
            g = speculative_greedy(TARGET, draft, prompt, 20, gamma=gamma)
            text, held = list(prompt), n_prompt - 1
            reads = [(0, prompt[:-1])] if n_prompt > 1 else []
            for r in g.rounds:
                for i in range(len(r.drafted)):
                    # after full acceptance two tokens, else one
                    reads.append((held, (text + r.drafted[:i])[held:]))
                    held = len(text) + i
                text += r.emitted
                held = min(held, len(text) - 1)
            assert draft.reads == reads
            assert {len(new) for _, new in reads[n_prompt > 1:]} == {1, 2}


def test_without_a_cache_the_whole_text_is_read_each_time():
    target, draft = Spy(TARGET), Spy(DRAFT)
    g = speculative_greedy(Uncached(target), Uncached(draft), PROMPT, 12, gamma=2)
    text, reads = list(PROMPT), {"target": [], "draft": []}
    for r in g.rounds:
        reads["target"].append((0, text + r.drafted))
        reads["draft"] += [(0, text + r.drafted[:i]) for i in range(len(r.drafted))]
        text += r.emitted
    assert (target.reads, draft.reads) == (reads["target"], reads["draft"])
    assert target.cache is None and draft.cache is None and g.prefill_seconds is None


def test_the_plain_loop_reads_each_token_once():
    model = Spy(TARGET)
    g = autoregressive(model, PROMPT, 8)
    one_by_one = enumerate(PROMPT[-1:] + g.tokens[:-1], start=len(PROMPT) - 1)
    assert model.reads == [(0, PROMPT[:-1]), *((held, [token]) for held, token in one_by_one)]


def test_after_each_round_the_caches_hold_the_text_and_nothing_else():
    target, draft = Spy(HashModel(3, n_vocab=4, n_ctx=40)), Spy(HashModel(2, n_vocab=4, n_ctx=40))
    for seed in range(5):
        text = [0, 1, 2]
        for r in sampled_rounds(target, draft, [0, 1, 2], 25, seed=seed):
            text += r.emitted
            assert target.cache.ids == text[:-1]
            assert draft.cache.ids == text[: draft.cache.length]
            assert (r.target_cache[1], r.draft_cache[1]) == (len(text) - 1, draft.cache.length)
            if r.drafted:
                assert len(text) - draft.cache.length == (2 if r.kind == "bonus" else 1)


def test_the_caches_are_no_larger_than_the_text_can_become():
    for n, n_ctx, capacity in ((7, 256, 12), (999, 256, 256)):
        target, draft = map(Spy, tiny_pair(n_ctx, n_ctx))
        next(sampled_rounds(target, draft, PROMPT, n))
        assert (target.cache.capacity, draft.cache.capacity) == (capacity, capacity)
        next(autoregressive_rounds(target, PROMPT, n))
        assert target.cache.capacity == capacity


def test_counts_and_caches_agree_in_sampled_runs():
    for seed in range(20):
        gamma = seed % 5
        sampling = (Sampling(), Sampling(0.5), Sampling(2.0, 5), Sampling(top_p=0.7))[seed % 4]
        g = speculative_sampling(TARGET, DRAFT, PROMPT, 15, gamma=gamma, sampling=sampling,
                                 eos=seed, generator=seeded(seed))
        check_run(g, PROMPT)
        check_run(autoregressive(TARGET, PROMPT, 15, sampling=sampling, eos=seed,
                                 generator=seeded(seed)), PROMPT)


def test_no_tokens_asked_for_no_model_run():
    nobody = Untouchable()
    for g in (autoregressive(nobody, [0], 0), speculative_greedy(nobody, nobody, [0], 0),
              speculative_sampling(nobody, nobody, [0], 0)):
        assert (g.tokens, g.finish_reason, g.rounds) == ([], "length", [])
        check_run(g, [0])


def test_with_gamma_0_the_draft_is_not_run():
    nobody = _in_vocabulary_of(TARGET)
    found = speculative_greedy(TARGET, nobody, PROMPT, 5, gamma=0)
    assert found.tokens == autoregressive(TARGET, PROMPT, 5).tokens


def _in_vocabulary_of(model):
    nobody = Untouchable()
    nobody.config = model.config
    return nobody


def test_gradients_are_off_inside_and_as_the_caller_wants_them_outside():
    class Watched(Spy):
        def forward(self, *args, **options):
            assert not torch.is_grad_enabled()
            return super().forward(*args, **options)

    target, draft = Watched(TARGET), Watched(DRAFT)
    for start in (lambda: sampled_rounds(target, draft, PROMPT, 9, trace=True),
                  lambda: autoregressive_rounds(target, PROMPT, 9, sampling=Sampling(),
                                                generator=seeded())):
        rounds = start()
        for i in range(3):
            with torch.set_grad_enabled(i % 2 == 0):
                r = next(rounds)
                assert torch.is_grad_enabled() == (i % 2 == 0)
            assert r.trace is None or not r.trace.p.requires_grad
        rounds.close()  # left in the middle
        assert torch.is_grad_enabled()


def test_two_interleaved_runs_on_one_pair_do_not_disturb_each_other():
    def start():
        return (sampled_rounds(TARGET, DRAFT, PROMPT, 20, seed=1),
                sampled_rounds(TARGET, DRAFT, random_prompt(9), 15, gamma=5, seed=2))

    alone = [[r.emitted for r in rounds] for rounds in start()]
    in_turn = list(zip_longest(*start()))
    assert [[r.emitted for r in rounds if r] for rounds in zip(*in_turn)] == alone


def test_the_prompt_the_caller_gave_is_not_touched_and_nothing_runs_before_the_first_step():
    prompt = list(PROMPT)
    nobody = _in_vocabulary_of(TARGET)
    speculative_rounds(nobody, nobody, prompt, 5, gamma=2, rule=accept_greedy, sampling=GREEDY)
    rounds = sampled_rounds(TARGET, DRAFT, prompt, 12)
    next(rounds)
    prompt.append(7)  # and what becomes of it afterwards is of no interest to the run
    g = [r.emitted for r in rounds]
    assert g == [r.emitted for r in sampled_rounds(TARGET, DRAFT, PROMPT, 12)][1:]


def test_requests_that_cannot_be_served_are_refused_at_once():
    for message, arguments, options in (("empty", (TARGET, DRAFT, [], 5), {}),
                                        ("257 tokens.* 256", (TARGET, DRAFT, [0] * 257, 5), {}),
                                        ("max_new_tokens", (TARGET, DRAFT, [0], -1), {}),
                                        ("gamma", (TARGET, DRAFT, [0], 5), {"gamma": -1}),
                                        ("whole number", (TARGET, DRAFT, [0], 5), {"gamma": "5"}),
                                        ("a list of token ids", (TARGET, DRAFT, "Once", 5), {}),
                                        ("max_new_tokens", (TARGET, DRAFT, [0], 1.5), {}),
                                        ("a list of token ids", (TARGET, DRAFT, [0.5], 5), {}),
                                        ("not among", (TARGET, DRAFT, [99], 5), {}),
                                        ("vocabulary", (TARGET, HashModel(1), [0], 5), {})):
        with pytest.raises(ValueError, match=message):
            sampled_rounds(*arguments, **options)  # before the first step
        with pytest.raises(ValueError, match=message):
            speculative_greedy(*arguments, **options)
    for prompt, n in (([], 5), ([0] * 257, 5), ([0], -1)):
        with pytest.raises(ValueError):
            autoregressive_rounds(TARGET, prompt, n)


def test_a_trace_shows_the_numbers_the_decisions_were_made_with():
    for sampling in (Sampling(), Sampling(0.7, 5, 0.9)):  # one setting for both models
        text = list(PROMPT)
        for r in sampled_rounds(TARGET, DRAFT, PROMPT, 20, sampling=sampling, trace=True):
            k, t = len(r.drafted), r.trace
            logits = TARGET.forward(torch.tensor([text + r.drafted]), None, last=k + 1)[0]
            torch.testing.assert_close(t.logits, logits, rtol=0, atol=1e-12)
            torch.testing.assert_close(t.p, to_probs(logits, sampling), rtol=0, atol=1e-12)
            if k:
                rows = DRAFT.forward(torch.tensor([text + r.drafted[:-1]]), None, last=k)[0]
                torch.testing.assert_close(t.q, to_probs(rows, sampling), rtol=0, atol=1e-12)
            passed = [(t.u[i] < t.p[i, x] / t.q[i, x]).item() for i, x in enumerate(r.drafted)]
            assert r.accepted == [*passed, False].index(False)
            assert set(r.phase_seconds) == {"draft", "verify", "accept"}
            assert all(s >= 0 for s in r.phase_seconds.values())
            text += r.emitted


def test_both_loops_fit_on_a_screen_and_ask_for_no_option():
    for loop, lines in ((speculative.decode, 35), (baseline.decode, 20)):
        source = inspect.getsource(loop)
        (function,) = ast.parse(source).body
        body = function.body
        assert body[-1].end_lineno - body[0].lineno < lines
        branches = [node for node in ast.walk(function) if isinstance(node, ast.If)]
        assert len(branches) == (loop is baseline.decode), loop
