"""What `python -m decoding.benchmark` does once its options are checked.

It loads both models, measures costs, runs every arm on every task, and writes tables and plots.
"""
import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from decoding.bench.arms import Arm, Row, Task, all_arms, all_tasks
from decoding.bench.costs import Costs, measure_costs, phase_seconds, read_costs
from decoding.bench.machine import machine
from decoding.bench.measure import Pair, identity, measure_task
from decoding.bench.progress import Progress
from decoding.bench.rows import ROWS, Rows, is_measured, read_rows
from decoding.bench.summary import best_gamma_line, report
from decoding.bench.tables import ways
from decoding.cli.session import check_graphs
from decoding.gamma import DEFAULT_GAMMA
from decoding.sampling import Sampling
from decoding.speculative import speculative_rounds, usual_rule
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import give_head, head_name, layout_name
from model.fast.preferences import HEADS
from weights import load_fast, load_tokenizer
from weights.console import pick_device
from weights.fast import dtype_name, pick_dtype
from weights.output import replacing
from weights.processes.group import Group
from weights.processes.load import load_leader
from weights.terminal import tell
from weights.tokenizer import show_token

COSTS, TABLES = "costs.json", "tables.md"


def sweep(options: argparse.Namespace, prompts: dict[str, list[int]],
          group: Group | None = None) -> None:
    """Measure what is not measured yet, and write rows, costs, tables and plots into options.out.

    group: the processes that the target is shared out among, if there are any.
    The tables also go to stdout. Raises ValueError for rows of other settings, NotLossless if
    greedy ids differ.
    """
    pair, load_seconds = load(options, group)
    settings = read_settings(options, pair)
    rows = Rows(options.out / ROWS, settings)
    arms = all_arms(options.gammas, options.no_cache_arms, options.rules, options.trees)
    tasks = all_tasks(prompts, options.lengths, options.temperatures)
    costs = known_costs(options.out / COSTS, settings, options.gammas)
    if costs is None:
        costs = replace(new_costs(pair, options.gammas, tasks[0]), load_seconds=load_seconds)
        write(options.out / COSTS,
              json.dumps(asdict(costs) | {"settings": settings}, allow_nan=False) + "\n")
    measure_all(pair, tasks, arms, options.repeats, rows, settings, costs)
    text = report(rows, costs, options.command)
    write(options.out / TABLES, text)
    print(text, flush=True)
    try:
        from decoding.bench.plots import write_plots  # matplotlib comes last: numbers first
    except ImportError as error:
        tell(f"rows and tables are in {options.out}, but no plots: matplotlib cannot be imported "
             f"({error}); install it, and the same command with --resume draws them")
        return
    write_plots(options.out, rows, costs)
    tell(f"rows, tables and plots are in {options.out}")


def tune(options: argparse.Namespace, prompts: dict[str, list[int]],
         group: Group | None = None) -> None:
    """Find the best gamma by a short run that leaves no files. Print what it gains."""
    pair, _ = load(options, group)
    settings = read_settings(options, pair)
    costs = measure_costs(*pair.as_run, max(options.gammas) + 1)
    tasks = all_tasks(prompts, options.lengths, options.temperatures)
    arms = all_arms(options.gammas, no_cache_arms=False, rules=options.rules)
    rows: list[Row] = []
    measure_all(pair, tasks, arms, options.repeats, rows, settings, costs)
    for temperature in options.temperatures:
        for way in ways(rows):
            print(best_gamma_line(rows, temperature, way))


def load(options: argparse.Namespace, group: Group | None) -> tuple[Pair, dict[str, float]]:
    """Return both models, and the seconds that loading took, which are part of no other number.

    One target serves all arms, laid out for the default gamma. In a layout of its own, the plain
    loop or another gamma could be somewhat faster (`model.fast.layouts.layout_for`). A run that is
    resumed takes the layouts and heads it began with.
    """
    device = pick_device(options.device)
    dtype = pick_dtype(options.dtype, options.target, device)
    recorded = {} if options.out is None else recorded_settings(options.out)
    tokenizer = load_tokenizer(options.target)
    models, seconds = {}, {}
    for role, tokens_per_pass, of in (("target", DEFAULT_GAMMA + 1, ""), ("draft", 2, "draft_")):
        layout = options.layout if options.layout != "auto" else recorded.get(f"{of}layout", "auto")
        started = perf_counter()
        how = (getattr(options, role), device, dtype, layout, tokens_per_pass)
        models[role] = (load_leader(group, *how) if group is not None and role == "target" else
                        load_fast(*how))
        give_head(models[role], HEADS.get(str(recorded.get(f"{of}head"))))
        seconds[role] = perf_counter() - started
    graphs = None
    if options.compile:
        check_graphs(device)
        blocks = (1, *(gamma + 1 for gamma in options.gammas))
        graphs = Graphed(models["target"], blocks), Graphed(models["draft"], (1, 2))
    pair = Pair(models["target"], models["draft"], graphs=graphs,
                eos=tokenizer.ends if options.eos else None, seed=options.seed,
                name=lambda token: show_token(token, tokenizer))
    return pair, seconds


def recorded_settings(folder: Path) -> Row:
    """Return the settings of the rows that an earlier run has left here, if there are any."""
    path = folder / ROWS
    rows = read_rows(path) if path.exists() else []
    return rows[0]["settings"] if rows else {}


def read_settings(options: argparse.Namespace, pair: Pair) -> Row:
    """Return the settings that all rows of one table share."""
    return {"target": options.target, "draft": options.draft,
            "dtype": dtype_name(pair.target.dtype), "layout": layout_name(pair.target),
            "head": head_name(pair.target), "draft_layout": layout_name(pair.draft),
            "draft_head": head_name(pair.draft), "seed": options.seed,
            "end_of_text": "stops the run" if options.eos else "off",
            **({} if options.processes is None else {"processes": options.processes}),
            **({"compile": True} if options.compile else {}),
            **machine(pick_device(options.device))}


def known_costs(path: Path, settings: Row, gammas: list[int]) -> Costs | None:
    """Return the costs an earlier run has written; None if a gamma is missing among them.

    Raises ValueError if they were measured under other settings.
    """
    if not path.exists():
        return None
    known = read_costs(path, settings)
    return known if set(map(str, gammas)) <= known.phases.keys() else None


def new_costs(pair: Pair, gammas: list[int], task: Task) -> Costs:
    """Measure what a forward costs, and the phases of a round of each gamma."""
    tell("measuring the cost of one forward over 1, 2, 3, ... tokens")
    costs = measure_costs(*pair.as_run, max(16, *(gamma + 1 for gamma in gammas)))
    return replace(costs, phases={str(gamma): round_phases(pair, task, gamma) for gamma in gammas})


def round_phases(pair: Pair, task: Task, gamma: int) -> dict[str, float] | None:
    """Return the seconds of drafting, verifying and accepting in a round.

    They come from a traced run that nothing else is measured on.
    """
    pair.warm_up([Arm(gamma)], task)
    sampling = Sampling(task.temperature)
    rounds = speculative_rounds(*pair.as_run, list(task.prompt), task.length,
                                gamma=gamma, sampling=sampling, rule=usual_rule(sampling),
                                trace=True)
    return phase_seconds(rounds, gamma)


def measure_all(pair: Pair, tasks: list[Task], arms: list[Arm], repeats: int, rows: list[Row],
                settings: Row, costs: Costs) -> None:
    """Run every arm on every task, and add a row for each run as soon as it is done."""
    runs = [(arm, task) for task in tasks for arm in arms for repeat in range(repeats)
            if not is_measured(rows, identity(arm, task, repeat))]
    progress = Progress(runs)
    try:
        for task in tasks:
            for row in measure_task(pair, task, arms, repeats, rows, settings, costs):
                rows.append(row)
                progress.done(row["cache"], row["length"])
    finally:
        progress.close()


def write(path: Path, text: str) -> None:
    """Replace a file, whole or not at all."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
