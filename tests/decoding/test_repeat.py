"""A run's passes, repeated: the logits are those that the run had, bit for bit."""
from itertools import chain

import pytest
import torch

from decoding import autoregressive, speculative_rounds
from decoding.acceptance import accept_block, accept_greedy, accept_sampled
from decoding.drafters import LookupDrafter
from decoding.drafters.tree import tree_drafter
from decoding.feed import Uncached
from decoding.proof.toys import tiny_pair
from decoding.repeat import repeat, repeat_plain
from decoding.sampling import GREEDY, UNCHANGED
from decoding.shapes import shape
from decoding.tree import tree_rounds
from model.fast.cuda_graphs import Graphed

PROMPT, NEW = [1, 2, 3, 4, 5, 6], 40
DTYPES = torch.float32, torch.bfloat16, torch.float16


def chosen_from(rounds):
    """The logits that the run itself noted for each new token; of a tree those on the path."""
    for r in rounds:
        path = [i + 1 for i in getattr(r, "path", range(r.accepted))]
        yield from r.trace.logits[[0, *path][: len(r.emitted)]]


def check(model, rounds):
    rounds = list(rounds)
    noted, found = list(chosen_from(rounds)), list(repeat(model, PROMPT, rounds))
    assert len(found) == len(list(chain(*(r.emitted for r in rounds)))) > 0
    assert any(r.accepted < len(r.drafted) for r in rounds) and any(r.accepted for r in rounds)
    assert torch.equal(torch.stack(found), torch.stack(noted))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("drafts, rule, gamma, new", [
    ("model", accept_greedy, 4, NEW), ("model", accept_sampled, 3, NEW),
    ("model", accept_block, 5, NEW), ("lookup", accept_greedy, 4, NEW),
    ("model", accept_greedy, 4, 10**6)])  # until the context is full
def test_chains(dtype, drafts, rule, gamma, new):
    target, draft = tiny_pair(n_ctx=60, dtype=dtype)
    drafter = draft if drafts == "model" else LookupDrafter(target.config.n_vocab)
    sampling = GREEDY if rule is accept_greedy else UNCHANGED
    rounds = speculative_rounds(target, drafter, PROMPT, new, gamma=gamma, rule=rule,
                                sampling=sampling, trace=True,
                                generator=torch.Generator().manual_seed(1))
    check(target, rounds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tree", ["2x3", "3,2", "1x4"])
@pytest.mark.parametrize("eos", [None, 7])
def test_trees(dtype, tree, eos):
    target, draft = tiny_pair(dtype=dtype)
    check(target, tree_rounds(target, tree_drafter(draft, shape(tree)), PROMPT, NEW,
                              sampling=GREEDY, eos=eos, trace=True))


@pytest.mark.parametrize("other_way", [
    Uncached, lambda model: Graphed(model, (1, 5))], ids=["uncached", "fixed shapes"])
def test_as_the_run_had_the_model(other_way):
    target, draft = tiny_pair(dtype=torch.bfloat16)
    model = other_way(target)
    check(model, speculative_rounds(model, draft, PROMPT, NEW, gamma=4, rule=accept_greedy,
                                    sampling=GREEDY, trace=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_plain_loop_is_repeated_along_any_text(dtype):
    target, _ = tiny_pair(dtype=dtype)
    text = [7, 8, *autoregressive(target, [*PROMPT, 7, 8], NEW).tokens]
    logits = repeat_plain(target, PROMPT, text)
    assert logits.dtype == dtype and len(logits) == len(text)
    assert logits[2:].argmax(-1).tolist() == text[2:]
    truth = target(torch.tensor([PROMPT + text]))[0, len(PROMPT) - 1:-1]
    torch.testing.assert_close(logits, truth, rtol=0.05, atol=0.05)
