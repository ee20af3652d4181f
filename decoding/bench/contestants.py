"""Both sides of the comparison with transformers: loading, decoding, and what a pass costs."""
import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import GPT2LMHeadModel

from decoding import autoregressive, speculative_greedy
from decoding.bench.costs import seconds
from model import GPT2
from model.fast.cuda_graphs import Graphed
from weights import load_fast

PASS_SIZES = (1, 2, 3, 5, 9)  # the tokens of the passes that are timed

Ours = GPT2 | Graphed
Contestant = tuple[str, int]  # who decodes, and gamma; 0 is plain decoding
Run = Callable[[int, int], list[int]]  # (new tokens, gamma) -> their ids


def load_both(folder: Path, dtype: torch.dtype, tokens_per_pass: tuple[int, ...],
              options: argparse.Namespace) -> tuple[dict[int, GPT2], Any]:
    """Load the same weights into our model, one laid out for each size of pass, and into theirs."""
    theirs = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa")
    theirs = theirs.eval().to(options.device, dtype)  # not all versions call the argument dtype
    theirs.generation_config.update(do_sample=False, eos_token_id=None, pad_token_id=0)
    ours = {n: load_fast(folder, options.device, dtype, options.layout, n) for n in tokens_per_pass}
    return ours, theirs


def ready(model: GPT2, verified: set[int], options: argparse.Namespace) -> Ours:
    """Return the model as it decodes: with --compile as CUDA graphs.

    verified: the sizes of the passes that verify, recorded besides those of PASS_SIZES.
    """
    return Graphed(model, tuple({*PASS_SIZES, *verified})) if options.compile else model


def make_contestants(ours: dict[int, Ours], theirs: Any, our_draft: Ours, their_draft: Any,
                     per_round: dict[int, float],
                     options: argparse.Namespace) -> dict[Contestant, Run]:
    """Return for each contestant a function that continues the prompt and returns the new ids.

    ours: the target, by the size of pass it is laid out for: the largest verified, and maybe 1.
    per_round: filled with the tokens per round of our last run, for each gamma.
    """
    ids = options.prompt
    prompt = torch.tensor([ids], device=options.device)
    plain, verifier = ours[min(ours)], ours[max(ours)]

    def generate(n: int, gamma: int) -> list[int]:
        assistant = {}
        if gamma > 0:
            their_draft.generation_config.update(num_assistant_tokens=gamma,
                                                 num_assistant_tokens_schedule="constant",
                                                 assistant_confidence_threshold=0.0)
            assistant = {"assistant_model": their_draft}
        text = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n,
                               **assistant)
        return text[0, len(ids):].tolist()

    def decode(n: int, gamma: int) -> list[int]:
        if gamma == 0:
            return autoregressive(plain, ids, n).tokens
        run = speculative_greedy(verifier, our_draft, ids, n, gamma=gamma)
        per_round[gamma] = len(run.tokens) / len(run.rounds)
        return run.tokens

    def decode_plainly_as_verifier(n: int, gamma: int) -> list[int]:
        return autoregressive(verifier, ids, n).tokens

    contestants: dict[Contestant, Run] = {}
    for gamma in [0, *options.gammas]:
        contestants["ours", gamma], contestants["transformers", gamma] = decode, generate
    return contestants | {("ours, laid out for verifying", 0): decode_plainly_as_verifier}


def race(contestants: dict[Contestant, Run], options: argparse.Namespace, title: str,
         say: Callable[[str], None],
         ) -> tuple[dict[Contestant, list[float]], dict[Contestant, bool]]:
    """Return, for each contestant, the seconds of every run, and whether any of its ids was wrong.

    title, say: how progress is told.
    """
    right = [options.prompt[-1] + 1 + i for i in range(options.tokens)]
    times: dict[Contestant, list[float]] = {contestant: [] for contestant in contestants}
    wrong = dict.fromkeys(contestants, False)
    for (_, gamma), run in contestants.items():
        run(4, gamma)  # the first calls of a process are slow
    for repeat in range(options.repeats):
        for contestant, run in contestants.items():
            who, gamma = contestant
            start = time.perf_counter()
            ids = run(options.tokens, gamma)
            times[contestant].append(time.perf_counter() - start)
            wrong[contestant] |= ids != right
            say(f"{title}, run {repeat + 1} of {options.repeats}: {who}, gamma {gamma}: "
                f"{times[contestant][-1]:.1f} s")
    return times, wrong


def passes(models: dict[int, Ours], prompt: list[int]) -> dict[int, dict[int, float]]:
    """Return, for each model, {n: median seconds of a pass over n tokens after the prompt}."""
    times: dict[int, dict[int, list[float]]] = {key: {n: [] for n in PASS_SIZES} for key in models}
    capacity = len(prompt) + max(PASS_SIZES)
    caches = {key: model.new_cache(capacity) for key, model in models.items()}
    for key, model in models.items():
        model.forward(torch.tensor([prompt]), caches[key], last=0)
    for n in 7 * PASS_SIZES:
        for key, model in models.items():
            step = partial(model.forward, torch.tensor([prompt[:n]]), caches[key])
            times[key][n].append(seconds(step))
            caches[key].truncate(len(prompt))
    return {key: {n: median(found) for n, found in by_n.items()} for key, by_n in times.items()}


def bandwidth(device: str) -> float:
    """Return the bytes read per second when 1 GiB is summed, which no cache holds: best of ten."""
    block = torch.ones(2**28, device=device)
    best = min(seconds(block.sum) for _ in range(10))
    return block.nbytes / best
