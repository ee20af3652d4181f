"""One call of `python -m decoding.benchmark`, from the checked options on: load, costs, runs, tables, plots."""
import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

import torch

from decoding.gamma import DEFAULT_GAMMA
from decoding.bench.arms import Arm, Task, all_arms, all_tasks
from decoding.bench.costs import Costs, measure_costs, phase_seconds
from decoding.bench.machine import machine
from decoding.bench.measure import Pair, identity, measure_task
from decoding.bench.progress import Progress
from decoding.bench.rows import ROWS, Rows, check_settings, have
from decoding.bench.summary import best_gamma_line, report
from decoding.sampling import Sampling
from decoding.speculative import speculative_rounds, usual_rule
from model.fast.layouts import layout_name
from weights import load_fast, load_tokenizer
from weights.console import pick_device
from weights.output import replacing
from weights.terminal import tell
from weights.tokenizer import show_token

COSTS, TABLES = "costs.json", "tables.md"


def sweep(options: argparse.Namespace, prompts: dict[str, list[int]]) -> None:
    """Measure what is not measured yet, and write rows, costs, tables and plots into options.out; the tables also go to
    stdout. Raises ValueError for rows of other settings, NotLossless if greedy ids differ."""
    pair, load_seconds = load(options)
    settings = describe(options, pair)
    rows = Rows(options.out / ROWS, settings)
    arms, tasks = all_arms(options.gammas, options.no_cache_arms), all_tasks(prompts, options.lengths, options.temperatures)
    costs = known_costs(options.out / COSTS, settings, pair, options.gammas, tasks[0], load_seconds)
    measure(pair, tasks, arms, options.repeats, rows, settings, costs)
    text = report(rows, costs, options.command)
    with replacing(options.out / TABLES) as file:
        file.write_text(text, encoding="utf-8")
    from decoding.bench.plots import write_plots  # matplotlib comes last: numbers first

    write_plots(options.out, rows, costs)
    tell(f"rows, tables and plots are in {options.out}")
    print(text, flush=True)


def tune(options: argparse.Namespace, prompts: dict[str, list[int]]) -> None:
    """Find the best gamma by a short run that leaves no files, and say on stdout what it gains."""
    pair, _ = load(options)
    settings = describe(options, pair)
    costs = measure_costs(pair.target, pair.draft, max(options.gammas) + 1)
    tasks, rows = all_tasks(prompts, options.lengths, options.temperatures), []
    measure(pair, tasks, all_arms(options.gammas, no_cache_arms=False), options.repeats, rows, settings, costs)
    for temperature in options.temperatures:
        print(best_gamma_line(rows, temperature))


def load(options: argparse.Namespace) -> tuple[Pair, dict[str, float]]:
    """Both models, and the seconds that loading took, which are part of no other number.

    One target serves all arms, laid out for the default gamma: with a layout of its own, the plain loop or another gamma
    could be somewhat faster (`model.fast.layouts.layout_for`).
    """
    device, dtype = pick_device(options.device), getattr(torch, options.dtype)
    tokenizer = load_tokenizer(options.target)
    models, seconds = {}, {}
    for role, tokens_per_pass in (("target", DEFAULT_GAMMA + 1), ("draft", 2)):
        started = perf_counter()
        name_or_path = getattr(options, role)
        models[role] = load_fast(name_or_path, device, dtype, options.linear, tokens_per_pass)
        seconds[role] = perf_counter() - started
    eos = tokenizer.eot_token if options.eos else None
    return Pair(**models, eos=eos, seed=options.seed, name=lambda token: show_token(token, tokenizer)), seconds


def describe(options: argparse.Namespace, pair: Pair) -> dict:
    """The settings that all rows of one table share."""
    return {"target": options.target, "draft": options.draft, "dtype": options.dtype,
            "linear": layout_name(pair.target), "seed": options.seed,
            "end_of_text": "stops the run" if options.eos else "off", **machine(pick_device(options.device))}


def known_costs(path: Path, settings: dict, pair: Pair, gammas: list[int], task: Task, load_seconds: dict[str, float]) -> Costs:
    """The costs an earlier run has written, if they will do, else new ones, which are written at once."""
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        check_settings(path, [known], settings)
        if set(map(str, gammas)) <= known["phases"].keys():
            del known["settings"]
            return Costs(**known)
    tell("measuring the cost of one forward over 1, 2, 3, ... tokens")
    costs = measure_costs(pair.target, pair.draft, max(16, *(gamma + 1 for gamma in gammas)))
    phases = {str(gamma): round_phases(pair, task, gamma) for gamma in gammas}
    costs = replace(costs, phases=phases, load_seconds=load_seconds)
    text = json.dumps(asdict(costs) | {"settings": settings}, allow_nan=False) + "\n"
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
    return costs


def round_phases(pair: Pair, task: Task, gamma: int) -> dict[str, float] | None:
    """Seconds of drafting, verifying and deciding in a round, from a traced run that nothing else is measured on."""
    pair.warm_up([Arm(gamma)], task)
    sampling = Sampling(task.temperature)
    rounds = speculative_rounds(pair.target, pair.draft, list(task.prompt), task.length, gamma=gamma, sampling=sampling,
                                rule=usual_rule(sampling), trace=True)
    return phase_seconds(rounds, gamma)


def measure(pair: Pair, tasks: list[Task], arms: list[Arm], repeats: int, rows: list, settings: dict, costs: Costs) -> None:
    """Run every arm on every task, and add a row for each run as soon as it is done."""
    runs = [(arm, task) for task in tasks for arm in arms for repeat in range(repeats)
            if not have(rows, identity(arm, task, repeat))]
    progress = Progress(runs)
    try:
        for task in tasks:
            for row in measure_task(pair, task, arms, repeats, rows, settings, costs):
                rows.append(row)
                progress.done(row["cache"], row["length"])
    finally:
        progress.close()
