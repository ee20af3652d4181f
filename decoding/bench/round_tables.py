"""Runs both loops of a pair, and prints where their time goes."""
import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

import torch

from decoding.acceptance import accept_greedy
from decoding.baseline import autoregressive_rounds
from decoding.bench.accounting import Account, Timed, alone, in_turns, pass_name, take_account
from decoding.bench.bandwidth import Bandwidth
from decoding.bench.contestants import Ours, load_ours, ready
from decoding.bench.machine import processor
from decoding.bench.side_by_side import Task, nbytes, tasks
from decoding.drafters import ModelDrafter
from decoding.gamma import FixedGamma
from decoding.observer import Observer
from decoding.random import new_generator
from decoding.sampling import GREEDY
from decoding.speculative import decode
from decoding.stopping import Request
from weights.console import number
from weights.terminal import tell

PASS_SIZES = (1, 2, 3, 5, 9)  # tokens of the passes of the last table


@torch.no_grad()
def print_account(options: argparse.Namespace) -> None:
    """Print the parts of both loops, and then why a pass takes what it takes."""
    with tempfile.TemporaryDirectory() as folder:
        task = next(tasks(Path(folder), options))
        target, draft = task.folders
        assert draft is not None
        memory = [Bandwidth(nbytes(path, options.dtype), options.device)
                  for path in (target, draft)]
        sizes = [nbytes(path, options.dtype) for path in (target, draft)]
        dtype = getattr(torch, options.dtype)
        tell("loading")
        plain, verifier, small = (
            ready(load_ours(path, dtype, n, options), (*PASS_SIZES, options.gamma + 1), options)
            for path, n in ((target, 1), (target, options.gamma + 1), (draft, 2)))
    print(f"{task.models}, {options.dtype}; {processor(options.device)}, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    read(memory)
    steps = account_of_plain(plain, task, options)
    read(memory)
    rounds = account_of_rounds(verifier, small, task, options)
    read(memory)
    print_account_of("The plain loop", steps)
    print_account_of(f"The speculative loop, γ = {options.gamma}", rounds)
    limits = print_limits(sizes, memory)
    print_passes(plain, verifier, small, steps, rounds, limits, options, len(task.prompt))


def read(memory: list[Bandwidth]) -> None:
    for block in memory:
        block.read()


def account_of_plain(model: Ours, task: Task, options: argparse.Namespace) -> Account:
    """Return the account of the plain loop, of the run that waited least."""
    target = Timed("target", model)
    begin = partial(autoregressive_rounds, target, task.prompt, options.tokens)
    return least_disturbed([take_account(begin, [target], os.getpid())
                            for _ in range(options.repeats + 1)])


def account_of_rounds(model: Ours, small: Ours, task: Task,
                      options: argparse.Namespace) -> Account:
    """Return the account of the speculative loop, of the run that waited least."""
    target, draft = Timed("target", model), Timed("draft", small)
    end = len(task.prompt) + options.tokens

    def begin():
        request = Request(task.prompt, end, model.config.n_ctx, GREEDY, frozenset(),
                          new_generator())
        return decode(target, ModelDrafter(draft), request, FixedGamma(options.gamma),
                      accept_greedy, Observer(phases=True))
    return least_disturbed([take_account(begin, [target, draft], os.getpid())
                            for _ in range(options.repeats + 1)])


def least_disturbed(accounts: list[Account]) -> Account:
    """Return the account of the run that waited least for a core. The first run warms up."""
    return min(accounts[1:], key=lambda account: account.waited / account.seconds)


def print_account_of(title: str, account: Account) -> None:
    print(f"\n## {title}\n\n{account.tokens} tokens in {account.rounds} rounds and "
          f"{account.seconds:.2f} s: {account.tokens / account.seconds:.2f} tokens/s, the prompt "
          f"included. Its threads waited {account.waited:.2f} s for a core.\n")
    print("\n".join(account.lines()), flush=True)


def print_limits(sizes: list[int], memory: list[Bandwidth]) -> list[float]:
    """Print how fast the weights can be read; return the seconds of target and draft."""
    print("\n## The passes\n")
    for who, size, block in zip(("target", "draft"), sizes, memory):
        print(f"The {who}'s {size / 1e6:,.1f} MB can be read at {block}.")
    return [size / block.limit for size, block in zip(sizes, memory)]


def print_passes(plain: Ours, verifier: Ours, small: Ours, steps: Account, rounds: Account,
                 limits: list[float], options: argparse.Namespace, held: int) -> None:
    """Print what the passes of both loops cost by themselves, and T(n) of every layout."""
    pid, gamma = os.getpid(), options.gamma
    print("\n| pass | reading its weights, ms | alone | after a pause | in turns | in the run "
          "| unexplained |\n|---|---|---|---|---|---|---|")
    for loop, who, model, n, account, limit in (
            ("plain", "target", plain, 1, steps, limits[0]),
            ("speculative", "target", verifier, gamma + 1, rounds, limits[0]),
            ("speculative", "draft", small, 1, rounds, limits[1])):
        times = account.parts.get(pass_name(who, n), [])
        in_run = sorted(times)[len(times) // 2] if times else None
        by_itself = alone(model, n, held, pid)
        paused = alone(model, n, held, pid, pause=median_pause(account))
        turns = None if loop == "plain" else in_turns(verifier, small, gamma, held, pid, who)
        print(f"| {loop}: {pass_name(who, n)} | {1000 * limit:.2f} | "
              + " | ".join(ms(t) for t in (by_itself, paused, turns, in_run))
              + f" | {ms(unexplained(by_itself, paused, turns, in_run))} |", flush=True)
    print("\nAlone: the pass repeated back to back. After a pause: with sleep between passes, as "
          "long as the loop's own work, in which threads fall asleep. In turns: a round without "
          "that work, each model pushing the other's weights out of the cache. Unexplained: what "
          "the run takes beyond alone and what both of these add. Medians of clean samples; n/a "
          "where there was none.")
    print(f"\n| T(n), ms, alone | {' | '.join(f'n = {n}' for n in PASS_SIZES)} "
          f"|\n|{'---|' * (len(PASS_SIZES) + 1)}")
    for name, model, limit in (("target, laid out for 1 token", plain, limits[0]),
                               (f"target, laid out for {gamma + 1} tokens", verifier, limits[0]),
                               ("draft", small, limits[1])):
        cells = [alone(model, n, held, pid) for n in PASS_SIZES]
        print(f"| {name} | " + " | ".join(
            "n/a" if t is None else f"{1000 * t:.2f} ({t / limit:.2f} of reading)"
            for t in cells) + " |", flush=True)


def median_pause(account: Account) -> float:
    """Return how long the loop works between two passes: all that is no pass, per pass."""
    passes = [times for part, times in account.parts.items() if ": pass over" in part]
    others = [times for part, times in account.parts.items()
              if ": pass over" not in part and "prefill" not in part]
    return sum(map(sum, others)) / sum(map(len, passes))


def unexplained(by_itself: float | None, paused: float | None, turns: float | None,
                in_run: float | None) -> float | None:
    """Return what a pass takes in the run beyond itself, waking threads, and cold caches."""
    if by_itself is None or in_run is None:
        return None
    return in_run - by_itself - sum(max(0.0, t - by_itself) for t in (paused, turns) if t)


def ms(seconds: float | None) -> str:
    return number(None if seconds is None else 1000 * seconds, ".2f")
