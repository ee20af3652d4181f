"""Prints the tables of `python -m decoding.bench.transformers`."""
import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch
import transformers

from decoding.bench.contestants import (
    Contestant,
    Ours,
    bandwidth,
    load_both,
    make_contestants,
    passes,
    race,
    ready,
)
from decoding.bench.counting_gpt2 import write_checkpoint
from decoding.bench.machine import processor
from model.fast.layouts import layout_name

Folders = dict[float | str, Path]  # of the target, and of the draft for each share of spoilt ids


def compare_all(options: argparse.Namespace) -> None:
    """Print a table for each number format and share of spoilt ids, progress to stderr."""
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(machine_line(options.device))
    with tempfile.TemporaryDirectory() as folder:
        folders = write(Path(folder), options)
        for dtype in options.dtypes:
            compare(folders, getattr(torch, dtype), options)


def machine_line(device: str) -> str:
    """Return one line: processor, threads and versions."""
    return (f"{processor(device)}, {torch.get_num_threads()} threads, "
            f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, "
            f"transformers {transformers.__version__}")


def write(folder: Path, options: argparse.Namespace) -> Folders:
    """Write the target, and a draft for each share of spoilt ids."""
    folders: Folders = {"target": folder / "target"}
    say("writing the target")
    write_checkpoint(folders["target"], options.target)
    for spoil in options.spoil:
        say(f"writing the draft, spoil {spoil}")
        folders[spoil] = folder / f"draft-{spoil}"
        write_checkpoint(folders[spoil], options.draft, spoil=spoil, seed=1)
    return folders


def compare(folders: Folders, dtype: torch.dtype, options: argparse.Namespace) -> None:
    """Print, for one number format, what a pass of the target costs, then a table per draft."""
    most = max(options.gammas) + 1  # tokens in one pass of the target
    laid_out = options.device == "cpu" and options.layout == "auto"
    say("loading target")
    targets, theirs = load_both(folders["target"], dtype, (1, most) if laid_out else (most,),
                                options)
    size = sum(weight.nbytes for weight in targets[most].parameters())
    limit = bandwidth(options.device) / size  # tokens/s
    name = str(dtype).removeprefix("torch.")
    print(f"\n## {name}\n\nTarget GPT-2 {options.target}, {size / 1e9:.2f} GB of weights "
          f"read at {limit * size / 1e9:.1f} GB/s: at most {limit:.2f} tokens/s, "
          f"{1000 / limit:.0f} ms a token. Layout {layout_name(targets[most])}.")
    verified = {gamma + 1 for gamma in options.gammas}
    ours = {n: ready(model, verified, options) for n, model in targets.items()}
    print_passes("target", ours, options.prompt, limit)
    for spoil in options.spoil:
        say(f"loading draft-{spoil}")
        drafts, their_draft = load_both(folders[spoil], dtype, (2,), options)
        relative_size = sum(weight.nbytes for weight in drafts[2].parameters()) / size
        draft, per_round = ready(drafts[2], set(), options), dict[int, float]()
        print_passes(f"draft (spoil {spoil})", {2: draft}, options.prompt,
                     limit / relative_size)
        contestants = make_contestants(ours, theirs, draft, their_draft, per_round, options)
        times, wrong = race(contestants, options, f"{name}, spoil {spoil}", say)
        speeds = {who: options.tokens / median(seconds) for who, seconds in times.items()}
        print(f"\nDraft GPT-2 {options.draft}, spoil {spoil}:\n")
        print(table(speeds, wrong, limit, options.gammas), flush=True)
        same = ("ours, laid out for verifying", 0)
        print(f"\nThe plain loop over the target that is laid out for {most} tokens: "
              f"{speeds[same]:.2f} tokens/s, ids {'DIFFERENT' if wrong[same] else 'equal'}.\n")
        print("If a pass cost no more than reading the weights once: " + ", ".join(
            f"gamma {gamma} {tokens:.2f} tokens per round, "
            f"{tokens / (1 + gamma * relative_size):.2f} times the plain loop"
            for gamma, tokens in per_round.items()) + ".", flush=True)


def table(speeds: dict[Contestant, float], wrong: dict[Contestant, bool], limit: float,
          gammas: list[int]) -> str:
    """Return the tokens per second of both, a line for the plain loop and for each gamma."""
    lines = ["| | ours, tokens/s | of the limit | over our baseline | transformers, tokens/s "
             "| of the limit | ours over transformers | ids |",
             "|---|---|---|---|---|---|---|---|"]
    for gamma in [0, *gammas]:
        ours, theirs = speeds["ours", gamma], speeds["transformers", gamma]
        title = f"speculative, gamma {gamma}" if gamma else "plain"
        equal = not (wrong["ours", gamma] or wrong["transformers", gamma])
        lines.append(f"| {title} | {ours:.2f} | {ours / limit:.0%} "
                     f"| {ours / speeds['ours', 0]:.2f} | {theirs:.2f} | {theirs / limit:.0%} "
                     f"| {ours / theirs:.2f} | {'equal' if equal else 'DIFFERENT'} |")
    return "\n".join(lines)


def print_passes(who: str, models: dict[int, Ours], prompt: list[int], limit: float) -> None:
    """Print what a pass costs. limit: how many times the weights can be read in a second."""
    for laid_out_for, times in passes(models, prompt).items():
        costs = ", ".join(f"n={n} {1000 * seconds:.0f} ms ({seconds * limit:.2f} times the limit)"
                          for n, seconds in times.items())
        print(f"\nOne pass of the {who} over n tokens, laid out for {laid_out_for}: {costs}.",
              flush=True)


def say(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)
