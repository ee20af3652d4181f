"""Measures whole runs for notebook 5: the project's benchmark without its files."""
from decoding.bench.arms import Arm, Row, Task
from decoding.bench.costs import Costs
from decoding.bench.machine import machine
from decoding.bench.measure import Pair, measure_task
from model import Decoder


def new_pair(target: Decoder, draft: Decoder, tokenizer) -> Pair:
    """Return two models whose texts stop at no end-of-text, so that all have the same length."""
    return Pair(target, draft, eos=None, seed=0,
                name=lambda token: repr(tokenizer.decode([token])))


def measure(pair: Pair, tasks: list[Task], arms: list[Arm], repeats: int,
            costs: Costs | None = None, names: tuple[str, str] = ("target", "draft")) -> list[Row]:
    """Return a row of numbers for each run: every arm on every task, `repeats` times, in turns.

    A greedy run is compared with the plain loop of its task; raises NotLossless if its ids differ
    by more than a near-tie.
    """
    settings = {"target": names[0], "draft": names[1], **machine(pair.target.device.type)}
    rows: list[Row] = []
    for task in tasks:
        for row in measure_task(pair, task, arms, repeats, rows, settings, costs):
            rows.append(row)  # before the next one is asked for, which may be compared with it
    return rows
