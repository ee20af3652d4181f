"""Runs the arms on a task: warm-up, the run, the check of its ids, and the row of its numbers."""
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import torch

from decoding.acceptance import accept_block
from decoding.baseline import autoregressive
from decoding.bench.arms import WAYS, Arm, NotLossless, Row, Task, baseline_of
from decoding.bench.costs import Costs, noise_free_alpha
from decoding.bench.rows import is_measured
from decoding.compare import Difference, first_difference, identity_line
from decoding.drafters.tree import tree_drafter
from decoding.feed import Model, Uncached
from decoding.observer import synchronize
from decoding.result import Generation, Round, ratio
from decoding.sampling import Sampling
from decoding.shapes import shape
from decoding.speculative import speculative_sampling, usual_rule
from decoding.stopping import Eos
from decoding.theory import expected_speedup
from decoding.tree import speculative_tree
from model import Decoder

WARM_UP = 16  # new tokens; enough for every size of block that the run will feed


@dataclass
class Pair:
    """Two loaded models, and how every run with them goes."""

    target: Decoder
    draft: Decoder
    eos: Eos  # None: end-of-text stops nothing
    seed: int
    name: Callable[[int], str]  # shows a token id as text
    graphs: tuple[Model, Model] | None = None  # both as CUDA graphs, which arms with a cache run
    alphas: dict[tuple, float | None] = field(default_factory=dict)  # of the last text

    def run(self, arm: Arm, task: Task, repeat: int, new_tokens: int | None = None) -> Generation:
        """Decode the task, or only its first new_tokens tokens.

        repeat: sets the seed, the same for every arm.
        """
        generator = torch.Generator(self.target.device).manual_seed(self.seed + repeat)
        sampling, prompt = Sampling(task.temperature), list(task.prompt)
        length = task.length if new_tokens is None else min(new_tokens, task.length)
        target, draft = self.target_of(arm), self.as_run[1]
        draft = draft if arm.cache in ("both", "draft") else Uncached(self.draft)
        synchronize()
        if arm.gamma == 0:
            return autoregressive(target, prompt, length, sampling=sampling, eos=self.eos,
                                  generator=generator)
        if arm.is_tree:
            drafter = tree_drafter(self.draft, shape(arm.way))
            return speculative_tree(self.target, drafter, prompt, length, sampling=sampling,
                                    eos=self.eos, generator=generator)
        rule = accept_block if arm.way == "block" else usual_rule(sampling)
        return speculative_sampling(target, draft, prompt, length, gamma=arm.gamma, rule=rule,
                                    sampling=sampling, eos=self.eos, generator=generator)

    def target_of(self, arm: Arm) -> Model:
        """Return the target as this arm runs it. Trees are not recorded as graphs."""
        if arm.is_tree:
            return self.target
        return self.as_run[0] if arm.cache in ("both", "target") else Uncached(self.target)

    @property
    def as_run(self) -> tuple[Model, Model]:
        """Both models as arms with a cache run them."""
        return self.graphs or (self.target, self.draft)

    def warm_up(self, arms: list[Arm], task: Task) -> None:
        """Run each arm for a moment: the first calls of a process are slow."""
        for arm in arms:
            self.run(arm, task, repeat=0, new_tokens=max(WARM_UP, 2 * arm.gamma))

    def alpha(self, task: Task, tokens: list[int]) -> float | None:
        """Return `noise_free_alpha` along this text, computed once if the arms wrote the same."""
        key = (task.prompt, tuple(tokens), task.temperature)
        if key not in self.alphas:
            found = noise_free_alpha(self.target, self.draft, list(task.prompt), tokens,
                                     Sampling(task.temperature))
            self.alphas = {key: found}
        return self.alphas[key]


def near_tie(pair: Pair, arm: Arm, task: Task, expected: list[int],
             found: Generation) -> Difference | None:
    """Return where a greedy run parts from the plain one by a near-tie; None if it does not.

    Raises NotLossless, with the position, if it is more than a near-tie.
    """
    difference = first_difference(pair.as_run[0], pair.target_of(arm), list(task.prompt), expected,
                                  found)
    if difference is not None and difference.verdict != "near-tie":
        raise NotLossless(f"{arm.name}, prompt {task.kind}, {task.length} tokens: "
                          f"{identity_line(difference, pair.name)}")
    return difference


def identity(arm: Arm, task: Task, repeat: int) -> Row:
    """Return the columns that identify a measurement."""
    return {"gamma": arm.gamma, "cache": arm.cache, "way": arm.way, "kind": task.kind,
            "prompt_sha256": task.prompt_sha256, "prompt_tokens": len(task.prompt),
            "length": task.length, "temperature": task.temperature, "repeat": repeat}


def numbers(run: Generation, alpha: float | None, costs: Costs | None) -> Row:
    """Return the numbers of one run that need no other run.

    alpha: None without a draft.
    costs: None where none were measured for such an arm, or no closed form speaks of it.
    """
    full, gamma = full_rounds(run), run.gamma
    full_tokens = sum(len(r.emitted) for r in full)
    row = run.stats() | {
        "finish_reason": run.finish_reason,
        "tested_by_position": [sum(r.tested > i for r in run.rounds) for i in range(gamma)],
        "accepted_by_position": [sum(r.accepted > i for r in run.rounds) for i in range(gamma)],
        "full_rounds": len(full),
        "tokens_per_full_round": ratio(full_tokens, len(full)),
        "full_rounds_tokens_per_second": ratio(full_tokens, sum(r.seconds for r in full)),
        "alpha": alpha, "c": None, "v": None,
        "predicted_speedup_paper": None, "predicted_speedup": None}
    if costs is not None:
        c, v = costs.c, costs.v(gamma)
        row |= {"c": c, "v": v}
        if alpha is not None:
            row |= {"predicted_speedup_paper": expected_speedup(alpha, gamma, c),
                    "predicted_speedup": expected_speedup(alpha, gamma, c, v)}
    return row


def full_rounds(run: Generation) -> list[Round]:
    """Return the rounds that the closed forms speak of: gamma drafted, no cut by an end-of-text."""
    return [r for r in run.rounds if len(r.drafted) == run.gamma and r.kind != "none"]


def gains(row: Row, baseline: Row | None) -> Row:
    """Return what a row gains over the plain run it may be compared with.

    Every number is None where there is no such run.
    """
    base = baseline["tokens_per_second"] if baseline is not None else None
    speedup = over(row["tokens_per_second"], base)
    return {"baseline_tokens_per_second": base,
            "speedup": speedup,
            "full_rounds_speedup": over(row["full_rounds_tokens_per_second"], base),
            "latency_reduction_percent": 100 * (1 - 1 / speedup) if speedup else None}


def over(rate: float | None, base: float | None) -> float | None:
    """Divide two rates; None where one is missing."""
    return None if rate is None or not base else rate / base


def measure_task(pair: Pair, task: Task, arms: list[Arm], repeats: int, rows: list[Row],
                 settings: Row, costs: Costs | None) -> Iterator[Row]:
    """Yield a row for each run of a task that is missing among `rows`.

    All arms run once, then all again for the next repeat, so that a slow moment hits all alike. The
    caller adds each row to `rows` before it asks for the next: a run is compared with the plain run
    before it.
    """
    missing = [(repeat, arm) for repeat in range(repeats) for arm in arms
               if arm.fits(task.temperature) and not is_measured(rows, identity(arm, task, repeat))]
    if not missing:
        return
    expected = pair.run(Arm(0), task, 0).tokens if task.temperature == 0 else None
    pair.warm_up(list(dict.fromkeys(arm for _, arm in missing)), task)
    for repeat, arm in missing:
        run = pair.run(arm, task, repeat)
        tie = near_tie(pair, arm, task, expected, run) if expected is not None else None
        one_by_one = arm.gamma > 0 and arm.way == WAYS[0]  # what alpha and its formulas are about
        alpha = pair.alpha(task, run.tokens) if one_by_one else None
        measured_like_it = one_by_one and arm.cache == "both"
        row = identity(arm, task, repeat)
        row |= numbers(run, alpha, costs if measured_like_it else None)
        row |= {"checked": expected is not None, "first_difference": as_json(tie),
                "settings": settings}
        yield row | gains(row, baseline_of(row, rows))


def as_json(difference: Difference | None) -> Row | None:
    """Return a difference as it stands in a row."""
    return None if difference is None else asdict(difference) | {"verdict": difference.verdict}
