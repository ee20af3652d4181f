"""Mistakes planted in the speculative loop: the audit of greedy texts must find each of them.

It must also leave honest runs alone. All with the bundled pair, in every number format.
"""
from functools import cache
from unittest.mock import patch

import pytest
import torch

from decoding import autoregressive, benchmark, feed, speculative, speculative_greedy
from decoding.acceptance import Acceptance, accept_greedy
from decoding.bench import sweep
from decoding.cli import session
from decoding.compare import first_difference
from model.kv_cache import KVCache
from tests.commands import ask
from weights import load_fast, load_tokenizer

DTYPES = (pytest.param("float32", marks=pytest.mark.slow), "bfloat16",
          pytest.param("float16", marks=pytest.mark.slow))
OPENINGS = ("Once upon a time, there was a little girl", "A king had three sons", "The old woman")
LENGTH = 30


def accept_all(drafted, q, p, generator):
    n = torch.tensor([len(drafted)])
    return Acceptance(n, p[n].argmax(-1))


def accept_one_too_many(drafted, q, p, generator):
    n = (accept_greedy(drafted, q, p, generator).n + 1).clamp(max=len(drafted))
    return Acceptance(n, p[n].argmax(-1))


def take_the_last_argmax(drafted, q, p, generator):
    return Acceptance(accept_greedy(drafted, q, p, generator).n, p[-1:].argmax(-1))


def take_the_argmax_before(drafted, q, p, generator):
    n = accept_greedy(drafted, q, p, generator).n
    return Acceptance(n, p[(n - 1).clamp(min=0)].argmax(-1))


def write_a_wrong_token():
    """Once or twice in a text, the fifth best token."""
    def feed_spoilt(model, cache, tokens, drafted=feed.NOTHING, last=1):
        logits = feed.feed(model, cache, tokens, drafted, last)
        if 20 <= len(tokens) < 25:  # 25 are 20 and a whole round
            logits[0, logits[0].topk(4).indices] = -30
        return logits

    return patch.object(speculative, "feed", feed_spoilt)


def rewind_too_little():
    def rewind(cache, length):
        return feed.rewind(cache, length + 1)

    return patch.object(speculative, "rewind", rewind)


def keep_a_stale_row():
    """The keys and values of the last token stay those of the token that was rejected there."""
    right = KVCache.store

    def store(self, layer, kv):
        start, n = self.length, kv.shape[3]
        if n == 1 or start < 20:  # the prefill is right
            return right(self, layer, kv)
        stale = self.layers[layer][:, :, :, start].clone()
        kv = right(self, layer, kv)
        kv[:, :, :, start] = stale
        return kv

    return patch.object(KVCache, "store", store)


def skip_the_bonus():
    right = speculative.settle

    def settle(numbers, eos):
        ids, kept, extra, kind = right(numbers, eos)
        return ids, kept, ids[-1] if kind == "bonus" and ids else extra, kind

    return patch.object(speculative, "settle", settle)


def follow(rule):
    return lambda: patch.multiple(speculative, accept_greedy=rule)


MISTAKES = {"accept all": follow(accept_all), "accept one too many": follow(accept_one_too_many),
            "last argmax": follow(take_the_last_argmax),
            "argmax before": follow(take_the_argmax_before), "a wrong token":
            write_a_wrong_token, "stale row": keep_a_stale_row, "no bonus": skip_the_bonus}


@pytest.fixture(scope="module")
def loaded():
    return cache(load_fast)


@pytest.fixture(autouse=True)
def loaded_once(loaded, monkeypatch):
    for program in (session, sweep):
        monkeypatch.setattr(program, "load_fast", loaded)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_command_line_finds_the_mistake(mistake, dtype, capsys):
    with MISTAKES[mistake]():
        answer = ask(capsys, "--dtype", dtype, "--temperature", 0, "--layout", "plain",
                     "--max-new-tokens", LENGTH, OPENINGS[0])
    assert answer.code == 0
    assert answer.err.rstrip().endswith(": DIFFERENT")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mistake", ["accept all", "stale row"])
def test_the_benchmark_finds_the_mistake(mistake, dtype, tmp_path, capsys):
    file = tmp_path / "p.txt"
    file.write_text(OPENINGS[0])
    with MISTAKES[mistake]():
        code = benchmark.main(["--dtype", dtype, "--layout", "plain", "--prompts", str(file),
                               "--lengths", str(LENGTH), "--gammas", "4", "--temperatures", "0",
                               "--repeats", "1", "--tune"])
    out, err = capsys.readouterr()
    assert code == 1 and out == ""
    assert err.rstrip().endswith(": DIFFERENT")


def test_a_cache_that_keeps_too_much_stops_the_run(capsys):
    with rewind_too_little():
        answer = ask(capsys, "--temperature", 0, "--layout", "plain", "--max-new-tokens", LENGTH)
    assert answer.code == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_honest_runs_are_left_alone(dtype, loaded):
    tokenizer = load_tokenizer("tales-large")
    target, draft = (loaded(name, "cpu", getattr(torch, dtype), "plain", n)
                     for name, n in (("tales-large", 5), ("tales-small", 2)))
    for opening in OPENINGS:
        prompt = tokenizer.encode(opening)
        plain = autoregressive(target, prompt, LENGTH).tokens
        run = speculative_greedy(target, draft, prompt, LENGTH, gamma=4)
        found = first_difference(target, prompt, plain, run.tokens)
        assert found is None or found.verdict == "near-tie", (opening, found)
