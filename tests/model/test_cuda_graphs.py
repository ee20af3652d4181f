"""model/fast/cuda_graphs.py: with every shape fixed, the logits and the ids are the same.

The shapes run on every device there is; they are recorded on CUDA only, and elsewhere the recording
itself runs against a stand-in for CUDA's.
"""
import contextlib
from types import SimpleNamespace

import pytest
import torch

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.cli import session
from model import GPT2, GPT2Config
from model.fast.cuda_graphs import Graphed, record
from tests.commands import ask, one_line, write_pair

CONFIG = GPT2Config(n_layer=3, n_head=4, n_embd=64, n_vocab=301, n_ctx=40)
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def eager(device="cpu", seed=0, config=CONFIG):
    """Weights large enough that every one of them shows in the logits."""
    gpt2 = GPT2(config).requires_grad_(False).eval()
    generator = seeded(seed)
    for weight in gpt2.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    return gpt2.to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("T", range(1, 8))
@pytest.mark.parametrize("start", [0, 1, 17, 33])
def test_logits_are_the_same(device, T, start):
    """Filled up or not, after any prefix, up to the last position, over a rejected block."""
    plain, graphed = eager(device), Graphed(eager(device), (1, 3, 5))
    text = torch.arange(100, 100 + start + T)[None]
    want = plain(text)[:, start:]
    cache = graphed.new_cache(start + T)
    if start > 0:
        graphed.forward(text[:, :start], cache, last=0)
        rejected = min(5, CONFIG.n_ctx - start)
        graphed.forward(torch.full((1, rejected), 7), cache)
        cache.truncate(start)
    for last in (T, T - 1, 0):
        logits = graphed.forward(text[:, start:], cache, last)
        assert logits.shape == (1, last, CONFIG.n_vocab)
        torch.testing.assert_close(logits, want[:, T - last:], rtol=0, atol=1e-4)
        assert cache.length == start + T
        cache.truncate(start)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_ids_are_the_same_for_any_prompt_and_gamma(device):
    """Up to the end of the context, where blocks get shorter.

    With a draft that is right, one that is right half the time, and one that is wrong.
    """
    plain, near = eager(device), eager(device)
    weight = near.h[2].mlp.c_proj.weight
    weight += 0.02 * torch.randn(weight.shape, generator=seeded(3)).to(device)
    kept = set()
    for gamma in (0, 1, 4):
        target = Graphed(plain, (1, gamma + 1))
        for draft in (plain, near, eager(device, seed=1)):
            graphed = Graphed(draft, (1, 2))
            for prompt in ([5], [5, 6], list(range(30))):
                want = autoregressive(plain, prompt, 100).tokens
                assert autoregressive(target, prompt, 100).tokens == want
                run = speculative_greedy(target, graphed, prompt, 100, gamma=gamma)
                assert run.tokens == want
                kept.add(run.accepted_per_tested)
                sampling = Sampling(temperature=0.8, top_k=20)
                runs = [speculative_sampling(*pair, prompt, 100, gamma=gamma, sampling=sampling,
                                             generator=seeded(2))
                        for pair in ((target, graphed), (plain, draft))]
                assert runs[0].tokens == runs[1].tokens
    assert {0, 1} < kept


def test_nothing_is_made_after_the_start_whatever_the_prompt():
    """One block per shape and one cache; all runs work on the same memory."""
    target, draft = (Graphed(eager(), sizes) for sizes in ((1, 5), (1, 2)))
    blocks = [*target.blocks.values(), *draft.blocks.values()]
    addresses, used = {target.cache.keys.data_ptr()}, set()
    for block in blocks:
        def run(block=block):
            used.add((block, block.tokens.data_ptr()))
            return block.forward()

        block.run = run
    for length in (1, 2, 5, 6, 20, 39):
        speculative_greedy(target, draft, list(range(length)), 30)
        addresses.add(target.cache.keys.data_ptr())
    assert {block for block, _ in used} == set(blocks) and len(used) == 4 and len(addresses) == 1
    assert [*target.blocks.values(), *draft.blocks.values()] == blocks


def test_blocks_that_are_not_recorded_run_as_usual():
    graphed = Graphed(eager(), (1, 4))
    for block in graphed.blocks.values():
        block.run = lambda: pytest.fail("replayed")
    tokens = torch.arange(9)[None]
    assert torch.equal(graphed.forward(tokens, graphed.new_cache(9)), eager()(tokens))
    assert torch.equal(graphed.forward(tokens[:, :2]), eager()(tokens[:, :2]))


def test_logits_outlive_the_next_step():
    graphed = Graphed(eager(), (1,))
    block, same = graphed.blocks[1], torch.empty(1, 1, CONFIG.n_vocab)
    block.run = lambda forward=block.run: same.copy_(forward())  # as a replay does
    cache = graphed.new_cache(9)
    first = graphed.forward(torch.tensor([[1]]), cache)
    before = first.clone()
    graphed.forward(torch.tensor([[2]]), cache)
    assert torch.equal(first, before)


def test_a_trainable_model_leaves_no_gradients_in_the_cache():
    graphed = Graphed(eager().requires_grad_(True), (1, 5))
    cache = graphed.new_cache(9)
    assert not graphed.forward(torch.tensor([[1]]), cache).requires_grad
    assert not cache.keys.requires_grad


def test_refusals_change_nothing():
    graphed = Graphed(eager(), (1, 5))
    old = graphed.new_cache(9)
    cache = graphed.new_cache(9)
    for tokens in ([1], list(range(8))):  # a recorded block, and one longer than any
        with pytest.raises(ValueError, match="no longer in use"):
            graphed.forward(torch.tensor([tokens]), old)
    graphed.forward(torch.arange(38)[None], cache, last=0)
    for tokens, last in (([1, 2, 3], 1), ([1], 2)):
        with pytest.raises(ValueError):
            graphed.forward(torch.tensor([tokens]), cache, last)
    assert cache.length == 38


def test_recording(monkeypatch):
    """Warmed up beside the stream in use, recorded once, then replayed into the same tensor."""
    calls, out = [], torch.zeros(1)
    stream = SimpleNamespace(wait_stream=lambda other: calls.append("wait"))

    class Graph:
        def replay(self):
            calls.append("replay")

    @contextlib.contextmanager
    def within(name):
        calls.append(f"begin {name}")
        yield
        calls.append(f"end {name}")

    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "stream", lambda s: within("side"))
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: within("graph"))
    replay = record(lambda: calls.append("forward") or out)
    assert calls == ["wait", "begin side", *["forward"] * 3, "end side", "wait", "begin graph",
                     "forward", "end graph"]
    assert replay() is out and replay() is out
    assert calls[-2:] == ["replay"] * 2


def test_on_the_command_line(capsys, tmp_path, monkeypatch):
    """Refused where there is no CUDA; without the refusal the text is the one of a plain run."""
    pair = write_pair(tmp_path)
    arguments = [*pair, "abc", "--max-new-tokens", 40]
    if not torch.cuda.is_available():
        assert "leave it out" in one_line(ask(capsys, *arguments, "--compile"))
        assert "cuda" in one_line(ask(capsys, *arguments, "--compile", "--device", "cuda"))
    assert "does nothing" in one_line(ask(capsys, *arguments, "--compile", "--no-cache"))
    monkeypatch.setattr(session, "check_graphs", lambda device: None)
    for more in ([], ["--gamma", 7], ["--gamma", "auto"], ["--draft", "lookup"],
                 ["--temperature", 0.8, "--seed", 3]):
        plain, graphed = ask(capsys, *arguments, *more), ask(capsys, *arguments, *more, "--compile")
        assert graphed.code == 0 and graphed.out == plain.out and "CUDA graphs" in graphed.err
        assert "ids identical: yes" in graphed.err or "--temperature" in more
    baseline = ask(capsys, "--target", pair[1], "abc", "--max-new-tokens", 40, "--mode", "baseline",
                   "--compile", *pair[-2:])
    assert baseline.code == 0 and baseline.out == ask(capsys, *arguments).out
