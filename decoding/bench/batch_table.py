"""What `python -m decoding.bench.batches` measures and prints."""
import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from decoding.baseline import autoregressive
from decoding.batched import batch_rounds, collect
from decoding.bench.arms import NotLossless
from decoding.bench.costs import REPEATS, seconds
from decoding.bench.machine import machine
from decoding.compare import first_difference
from decoding.result import Generation
from decoding.sampling import Sampling
from model import Decoder
from model.batch_cache import BatchCache, admit, read_texts
from model.fast.layouts import layout_name
from weights.console import pick_device
from weights.fast import load_fast, pick_dtype
from weights.terminal import tell

ARMS = ("plain", "speculative", "refilled")
HELD = 64  # tokens of each text in the caches before a timed pass


@dataclass(frozen=True)
class Run:
    """One arm, once."""

    texts: list[Generation]
    passes: int  # of the target
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return sum(text.new_tokens for text in self.texts) / self.seconds

    @property
    def rounds(self) -> int:
        """The rounds of all texts: how many places the passes made use of."""
        return sum(len(text.rounds) for text in self.texts)


@dataclass(frozen=True)
class Measured:
    """All that was measured for one B."""

    B: int
    gamma: int
    layout: str
    step: float  # T(B), in seconds
    verify: float  # T(B(gamma + 1))
    draft: float  # D(B)
    runs: dict[str, list[Run]]  # of each arm

    def speed(self, arm: str) -> float:
        """Return the median tokens per second."""
        return median(run.tokens_per_second for run in self.runs[arm])

    def speedup(self, arm: str) -> float:
        return self.speed(arm) / self.speed("plain")

    def empty(self, arm: str) -> float:
        """Return the share of the places in all passes that no text took."""
        run = self.runs[arm][0]
        return 1 - run.rounds / (self.B * run.passes)

    @property
    def tokens_per_round(self) -> float:
        run = self.runs["speculative"][0]
        return sum(text.new_tokens for text in run.texts) / run.rounds

    @property
    def round_cost(self) -> float:
        """Return what a round costs in plain steps of the same batch."""
        return (self.verify + self.gamma * self.draft) / self.step

    @property
    def predicted(self) -> float:
        """Return the speed-up if every place were taken in every pass."""
        return self.tokens_per_round / self.round_cost


def print_table(options: argparse.Namespace, prompts: list[list[int]]) -> None:
    """Measure every B, and print the table and what it says; progress goes to stderr."""
    rows: list[Measured] = []
    alone: dict[int, list[int]] = {}  # the greedy ids of each text alone
    ties, per_place = 0, len(prompts) // options.batches[-1]
    for B in options.batches:
        row, found = measure_batch(options, B, prompts[:per_place * B], alone)
        rows.append(row)
        ties += found
    settings = machine(pick_device(options.device))
    print(f"{options.target} and {options.draft}, gamma {options.gamma}, temperature "
          f"{options.temperature:g}, {options.tokens} tokens of each text, {options.dtype}; "
          + ", ".join(f"{name} {value}" for name, value in settings.items()))
    print(f"\n{table(rows)}\n\n{where_it_ends(rows)}")
    if options.temperature == 0:
        print(f"\nOf {len(alone)} texts in {len(ARMS)} arms each has the ids it has alone, but for "
              f"{ties} that part from them at a near-tie.")


def measure_batch(options: argparse.Namespace, B: int, prompts: list[list[int]],
                  alone: dict[int, list[int]]) -> tuple[Measured, int]:
    """Return what was measured with B texts at once, and how many texts part at a near-tie.

    Raises NotLossless where greedy ids differ from those alone, and it is no near-tie.
    """
    target, draft = load(options, B)
    arms = make_arms(options, B, target, draft, prompts)
    for run in arms.values():  # the first calls of a process are slow
        run(min(options.tokens, 2 * options.gamma))
    runs: dict[str, list[Run]] = {arm: [] for arm in arms}
    for repeat in range(options.repeats):
        for arm, run in arms.items():
            runs[arm].append(run(options.tokens))
            tell(f"B {B}, run {repeat + 1} of {options.repeats}: {arm}, "
                 f"{runs[arm][-1].tokens_per_second:.0f} tokens/s")
    ties = 0
    if options.temperature == 0:
        for i, prompt in enumerate(prompts):
            if i not in alone:
                alone[i] = autoregressive(target, prompt, options.tokens).tokens
            ties += sum(parts(target, prompt, alone[i], runs[arm][0].texts[i], f"{arm}, B {B}")
                        for arm in arms)
    step, verify, drafting = pass_seconds(target, draft, B, options.gamma)
    return Measured(B, options.gamma, layout_name(target), step, verify, drafting, runs), ties


def load(options: argparse.Namespace, B: int) -> tuple[Decoder, Decoder]:
    """Return target and draft, laid out for B texts at once."""
    device = pick_device(options.device)
    place = device, pick_dtype(options.dtype, options.target, device), options.layout
    return (load_fast(options.target, *place, B * (options.gamma + 1)),
            load_fast(options.draft, *place, B))


def make_arms(options: argparse.Namespace, B: int, target: Decoder, draft: Decoder,
              prompts: list[list[int]]) -> dict[str, Callable[[int], Run]]:
    """Return for each arm a function of the number of new tokens that runs it once."""
    def run(gamma: int, continuous: bool, tokens: int) -> Run:
        generators = [torch.Generator(target.device).manual_seed(i) for i in range(len(prompts))]
        passes: list[dict] = []
        took = seconds(lambda: passes.extend(batch_rounds(
            target, draft, prompts, tokens, gamma=gamma, sampling=Sampling(options.temperature),
            generators=generators, at_once=B, continuous=continuous)))
        return Run(collect(len(prompts), gamma, iter(passes)), len(passes), took)

    return {"plain": partial(run, 0, False), "speculative": partial(run, options.gamma, False),
            "refilled": partial(run, options.gamma, True)}


def parts(target: Decoder, prompt: list[int], alone: list[int], found: Generation,
          where: str) -> bool:
    """Return whether a text differs from itself alone. Raises NotLossless if by no near-tie."""
    difference = first_difference(target, target, prompt, alone, found, shared=True)
    if difference is not None and difference.verdict != "near-tie":
        raise NotLossless(f"{where}: a text differs from itself alone at new token "
                          f"{difference.index}: {difference}")
    return difference is not None


@torch.no_grad()
def pass_seconds(target: Decoder, draft: Decoder, B: int,
                 gamma: int) -> tuple[float, float, float]:
    """Return T(B), T(B(gamma + 1)) and D(B), as medians; the three take turns."""
    timed = [(target, 1), (target, gamma + 1), (draft, 1)]
    times: list[list[float]] = [[] for _ in timed]
    caches = [BatchCache(model.new_cache(HELD + n, B)) for model, n in timed]
    for (model, _), cache in zip(timed, caches):
        admit(model, cache, [[0] * (HELD + 1)] * B)
    for repeat in range(REPEATS + 1):
        for (model, n), cache, some in zip(timed, caches, times):
            took = seconds(partial(read_texts, model, cache, [[0] * n] * B, [n] * B))
            cache.truncate([HELD] * B)
            if repeat > 0:  # the first is the warm-up
                some.append(took)
    step, verify, drafting = map(median, times)
    return step, verify, drafting


def table(rows: list[Measured]) -> str:
    """Return a line for each B."""
    lines = ["| B | T(B) ms | T(B(γ+1)) ms | T(B(γ+1))/T(B) | D(B) ms | plain tokens/s "
             "| speculative tokens/s | speed-up | refilled | predicted, all places taken "
             "| tokens per round | places empty | refilled | layout |",
             "|---" * 14 + "|"]
    for row in rows:
        lines.append(
            f"| {row.B} | {1000 * row.step:.2f} | {1000 * row.verify:.2f} "
            f"| {row.verify / row.step:.2f} | {1000 * row.draft:.2f} | {row.speed('plain'):.0f} "
            f"| {row.speed('speculative'):.0f} | {row.speedup('speculative'):.2f} "
            f"| {row.speedup('refilled'):.2f} | {row.predicted:.2f} | {row.tokens_per_round:.2f} "
            f"| {row.empty('speculative'):.0%} | {row.empty('refilled'):.0%} | {row.layout} |")
    return "\n".join(lines)


def where_it_ends(rows: list[Measured]) -> str:
    """Say up to which B it pays, and what ends it: arithmetic, or stragglers."""
    losing = next((row for row in rows if row.speedup("speculative") < 1), None)
    if losing is None:
        return "Speculation pays at every B measured."
    first = rows[0]
    why = (f"At B = {losing.B} speculation no longer pays ({losing.speedup('speculative'):.2f}). "
           f"Arithmetic: reading B(γ+1) tokens costs {losing.verify / losing.step:.2f} steps of "
           f"the same batch, at B = {first.B} {first.verify / first.step:.2f}; with the draft a "
           f"round costs {losing.round_cost:.2f} steps, and gives {losing.tokens_per_round:.2f} "
           f"tokens, so {losing.predicted:.2f} at best. ")
    return why + (f"Stragglers: {losing.empty('speculative'):.0%} of the places ran empty, since "
                  "texts that take fewer rounds wait for the slowest; with each place refilled at "
                  f"once it is {losing.speedup('refilled'):.2f}.")
