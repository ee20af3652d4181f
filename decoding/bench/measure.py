"""Runs of the arms: warm-up, the run itself, the check that its ids are right, and the row of its numbers."""
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import torch

from decoding.baseline import autoregressive
from decoding.bench.arms import Arm, NotLossless, Task, baseline_of
from decoding.bench.costs import Costs, noise_free_alpha
from decoding.bench.rows import have
from decoding.compare import Difference, first_difference, identity_line
from decoding.feed import Uncached
from decoding.result import Generation, Round, ratio
from decoding.sampling import Sampling
from decoding.speculative import speculative_sampling
from decoding.observer import synchronize
from decoding.theory import expected_speedup
from model import GPT2

WARM_UP = 16  # new tokens; enough for every size of block that the run will feed


@dataclass
class Pair:
    """Two loaded models, and how every run with them goes."""

    target: GPT2
    draft: GPT2
    eos: int | None  # None: end-of-text stops nothing
    seed: int
    name: Callable[[int], str]  # shows a token id as text
    alphas: dict = field(default_factory=dict)  # of texts already looked at

    def run(self, arm: Arm, task: Task, repeat: int, new_tokens: int | None = None) -> Generation:
        """Decode the task, or its first new_tokens tokens. The repeat sets the seed, the same for every arm."""
        device = self.target.wpe.weight.device
        request = {"sampling": Sampling(task.temperature), "eos": self.eos,
                   "generator": torch.Generator(device).manual_seed(self.seed + repeat)}
        length = task.length if new_tokens is None else min(new_tokens, task.length)
        synchronize()
        target = self.target if arm.cache in ("both", "target") else Uncached(self.target)
        draft = self.draft if arm.cache in ("both", "draft") else Uncached(self.draft)
        if arm.gamma == 0:
            return autoregressive(target, list(task.prompt), length, **request)
        return speculative_sampling(target, draft, list(task.prompt), length, gamma=arm.gamma, **request)

    def warm_up(self, arms: list[Arm], task: Task) -> None:
        for arm in arms:
            self.run(arm, task, repeat=0, new_tokens=max(WARM_UP, 2 * arm.gamma))

    def alpha(self, task: Task, tokens: list[int]) -> float | None:
        """`noise_free_alpha` along this text; the arms of a greedy task share theirs."""
        key = (task.prompt, tuple(tokens), task.temperature)
        if key not in self.alphas:
            self.alphas = {key: noise_free_alpha(self.target, self.draft, list(task.prompt), tokens, Sampling(task.temperature))}
        return self.alphas[key]


def check(pair: Pair, arm: Arm, task: Task, expected: list[int], found: list[int]) -> Difference | None:
    """Where a greedy run parts from the plain one by a near-tie; None if it does not.

    Raises NotLossless, with the place, if it is more than a near-tie.
    """
    difference = first_difference(pair.target, list(task.prompt), expected, found)
    if difference is not None and difference.verdict != "near-tie":
        raise NotLossless(f"{arm.name}, prompt {task.kind}, {task.length} tokens: "
                          f"{identity_line(difference, pair.name)}")
    return difference


def identity(arm: Arm, task: Task, repeat: int) -> dict:
    """What makes a row that row."""
    return {"gamma": arm.gamma, "cache": arm.cache, "kind": task.kind, "prompt_sha256": task.prompt_sha256,
            "prompt_tokens": len(task.prompt), "length": task.length, "temperature": task.temperature, "repeat": repeat}


def numbers(run: Generation, alpha: float | None, costs: Costs | None) -> dict:
    """What one run tells by itself. alpha and costs are None where there is no draft, or no cost measured like it."""
    full = full_rounds(run)
    c, v = (costs.c, costs.v(run.gamma)) if costs is not None else (None, None)
    predictable = alpha is not None and costs is not None
    return run.stats() | {
        "finish_reason": run.finish_reason,
        "tested_by_position": [sum(r.tested > i for r in run.rounds) for i in range(run.gamma)],
        "accepted_by_position": [sum(r.accepted > i for r in run.rounds) for i in range(run.gamma)],
        "full_rounds": len(full),
        "tokens_per_full_round": ratio(sum(len(r.emitted) for r in full), len(full)),
        "full_rounds_tokens_per_second": ratio(sum(len(r.emitted) for r in full), sum(r.seconds for r in full)),
        "alpha": alpha, "c": c, "v": v,
        "predicted_speedup_paper": expected_speedup(alpha, run.gamma, c) if predictable else None,
        "predicted_speedup": expected_speedup(alpha, run.gamma, c, v) if predictable else None}


def full_rounds(run: Generation) -> list[Round]:
    """The rounds that the closed forms speak of: as many drafted as asked for, and not cut by an end-of-text."""
    return [r for r in run.rounds if len(r.drafted) == run.gamma and r.kind != "none"]


def against(row: dict, baseline: dict | None) -> dict:
    """What a row gains over the plain run it may be compared with; None throughout where there is no such run."""
    base = baseline["tokens_per_second"] if baseline is not None else None
    speedup = over(row["tokens_per_second"], base)
    return {"baseline_tokens_per_second": base,
            "speedup": speedup,
            "full_rounds_speedup": over(row["full_rounds_tokens_per_second"], base),
            "latency_reduction_percent": 100 * (1 - 1 / speedup) if speedup else None}


def over(rate: float | None, base: float | None) -> float | None:
    return None if rate is None or not base else rate / base


def measure_task(pair: Pair, task: Task, arms: list[Arm], repeats: int, rows: list[dict], settings: dict,
                 costs: Costs) -> Iterator[dict]:
    """The rows of a task that are not among `rows` yet, arm after arm and then again: a slow moment hits all arms alike.

    Each row has to be added to `rows` before the next is asked for: a plain run comes before what is compared with it.
    """
    missing = [(repeat, arm) for repeat in range(repeats) for arm in arms if not have(rows, identity(arm, task, repeat))]
    if not missing:
        return
    expected = pair.run(Arm(0), task, 0).tokens if task.temperature == 0 else None
    pair.warm_up(list(dict.fromkeys(arm for _, arm in missing)), task)
    for repeat, arm in missing:
        run = pair.run(arm, task, repeat)
        difference = check(pair, arm, task, expected, run.tokens) if expected is not None else None
        alpha = pair.alpha(task, run.tokens) if arm.gamma > 0 else None
        row = identity(arm, task, repeat) | numbers(run, alpha, costs if arm.gamma > 0 and arm.cache == "both" else None)
        row |= {"checked": expected is not None, "first_difference": note(difference), "settings": settings}
        yield row | against(row, baseline_of(row, rows))


def note(difference: Difference | None) -> dict | None:
    return None if difference is None else asdict(difference) | {"verdict": difference.verdict}
