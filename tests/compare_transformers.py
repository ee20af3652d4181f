"""Side by side with transformers, in one process and on the same weights: a script with a table, not a test.

    OMP_PROC_BIND=true python -m tests.compare_transformers > table.md

On a GPU: add --device cuda --compile, and --dtypes bfloat16 is the number format to look at.

Writes a counting target and counting drafts of official shape (tests/make_counting_gpt2.py) into a temporary folder, so
the right ids are known. Every arm continues the same prompt greedily by the same number of tokens, is timed as a whole,
prompt included, and takes turns with the others. The limit is what reading the target's weights from memory once per
token would allow; plain decoding cannot beat it, speculative decoding can. On a CPU our target is loaded twice, laid out
for one row and for verifying the largest gamma, since the best layout for one is not the best for the other; run a gamma
on its own to see it at its best. With Large as the target one gamma and one share of spoilt ids take about six minutes,
and the whole a multiple of that; --gammas, --spoil and --dtypes run a part.
"""
import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
import transformers
from transformers import GPT2LMHeadModel

from decoding import autoregressive, speculative_greedy
from decoding.bench.machine import processor
from decoding.observer import synchronize
from model import GPT2
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import layout_name
from tests.make_counting_gpt2 import write_checkpoint
from weights import load_fast

PROMPT = list(range(1000, 1016))
ROWS = (1, 2, 3, 5, 9)  # the rows of one target pass that are timed


def main() -> None:
    options = parse()
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(machine(options.device))
    with tempfile.TemporaryDirectory() as folder:
        folders = write(Path(folder), options)
        for dtype in options.dtypes:
            compare(folders, getattr(torch, dtype), options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", default="large", help="size of the target (default: %(default)s)")
    add("--draft", default="small", help="size of the draft (default: %(default)s)")
    add("--spoil", type=float, nargs="+", default=[0.1, 0.2, 0.4], help="shares of ids the draft gets wrong (default: .1 .2 .4)")
    add("--gammas", type=int, nargs="+", default=[1, 2, 4, 8], help="tokens drafted per round (default: 1 2 4 8)")
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], help="default: float32 bfloat16")
    add("--tokens", type=int, default=60, help="new tokens per run (default: %(default)s)")
    add("--repeats", type=int, default=3, help="runs of each arm, of which the median counts (default: %(default)s)")
    add("--linear", default="auto", help="our matrix products, auto or plain (default: %(default)s)")
    add("--device", default="cpu", help="default: %(default)s")
    add("--compile", action="store_true", help="ours as CUDA graphs")
    return parser.parse_args()


def write(folder: Path, options: argparse.Namespace) -> dict[float | str, Path]:
    """The folders of the target, and of the draft for each share of spoilt ids."""
    folders = {"target": folder / "target"}
    say("writing the target")
    write_checkpoint(folders["target"], options.target)
    for spoil in options.spoil:
        say(f"writing the draft, spoil {spoil}")
        folders[spoil] = folder / f"draft-{spoil}"
        write_checkpoint(folders[spoil], options.draft, spoil=spoil, seed=1)
    return folders


def compare(folders: dict[float | str, Path], dtype: torch.dtype, options: argparse.Namespace) -> None:
    """One number format: the cost of a target pass by its rows, then a table for each draft."""
    rows = max(options.gammas) + 1
    laid_out = options.device == "cpu" and options.linear == "auto"
    ours, theirs = load_both(folders["target"], dtype, (1, rows) if laid_out else (rows,), options)
    size = sum(weight.numel() * weight.element_size() for weight in ours[rows].parameters())
    limit = bandwidth(options.device) / size  # tokens/s
    name = str(dtype).removeprefix("torch.")
    print(f"\n## {name}\n\nTarget GPT-2 {options.target}, {size / 1e9:.2f} GB of weights read at {limit * size / 1e9:.1f} GB/s: "
          f"at most {limit:.2f} tokens/s, {1000 / limit:.0f} ms a token. Linear layers: {layout_name(ours[rows])}.")
    ours = {n: ready(model, {*ROWS, *(gamma + 1 for gamma in options.gammas)}, options) for n, model in ours.items()}
    print_passes("target", ours, limit)
    for spoil in options.spoil:
        drafts, their_draft = load_both(folders[spoil], dtype, (2,), options)
        share = sum(weight.nbytes for weight in drafts[2].parameters()) / size
        draft, per_round = ready(drafts[2], {*ROWS}, options), {}
        print_passes(f"draft (spoil {spoil})", {2: draft}, limit / share)
        arms = make_arms(ours, theirs, draft, their_draft, per_round, options)
        times, wrong = race(arms, options, f"{name}, spoil {spoil}")
        speeds = {arm: options.tokens / median(values) for arm, values in times.items()}
        print(f"\nDraft GPT-2 {options.draft}, spoil {spoil}:\n")
        print(table(speeds, wrong, limit, options.gammas), flush=True)
        same = ("ours, laid out for verifying", 0)
        print(f"\nThe plain loop over the target that is laid out for {rows} tokens: {speeds[same]:.2f} tokens/s, "
              f"ids {'DIFFERENT' if wrong[same] else 'equal'}.\n")
        print("If a pass cost no more than reading the weights once: " + ", ".join(
            f"gamma {gamma} {tokens:.2f} tokens per round, {tokens / (1 + gamma * share):.2f} times the plain loop"
            for gamma, tokens in per_round.items()) + ".", flush=True)


def ready(model: GPT2, rows: set[int], options: argparse.Namespace) -> GPT2 | Graphed:
    return Graphed(model, tuple(rows)) if options.compile else model


def load_both(folder: Path, dtype: torch.dtype, rows: tuple[int, ...], options: argparse.Namespace):
    """The same weights in this project's model, laid out for each of these numbers of rows, and in transformers'."""
    say(f"loading {folder.name}")
    theirs = GPT2LMHeadModel.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval().to(options.device)
    theirs.generation_config.update(do_sample=False, eos_token_id=None, pad_token_id=0)
    return {n: load_fast(folder, options.device, dtype, options.linear, n) for n in rows}, theirs


def make_arms(ours, theirs, our_draft, their_draft, per_round: dict[int, float], options: argparse.Namespace) -> dict:
    """{(who, gamma): a function that continues PROMPT by n tokens and returns the new ids}; gamma 0 is plain decoding.

    ours: the target by the rows it is laid out for: the most that are verified, and possibly 1. per_round: for each gamma,
    where our last run leaves its tokens per round.
    """
    prompt = torch.tensor([PROMPT], device=options.device)
    plain, verifier = ours[min(ours)], ours[max(ours)]

    def generate(n, gamma):
        assistant = {}
        if gamma > 0:
            their_draft.generation_config.update(num_assistant_tokens=gamma, num_assistant_tokens_schedule="constant",
                                                 assistant_confidence_threshold=0.0)
            assistant = {"assistant_model": their_draft}
        return theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n, **assistant)[0, len(PROMPT):].tolist()

    def decode(n, gamma):
        if gamma == 0:
            return autoregressive(plain, PROMPT, n).tokens
        run = speculative_greedy(verifier, our_draft, PROMPT, n, gamma=gamma)
        per_round[gamma] = run.tokens_per_round
        return run.tokens

    arms = {(who, gamma): run for gamma in [0, *options.gammas] for who, run in (("ours", decode), ("transformers", generate))}
    return arms | {("ours, laid out for verifying", 0): lambda n, gamma: autoregressive(verifier, PROMPT, n).tokens}


def race(arms: dict, options: argparse.Namespace, title: str) -> tuple[dict, dict]:
    """Seconds of every run of each arm, and whether any of its ids was wrong."""
    right = [PROMPT[-1] + 1 + i for i in range(options.tokens)]
    times, wrong = {arm: [] for arm in arms}, dict.fromkeys(arms, False)
    for arm, run in arms.items():
        run(4, arm[1])  # the first calls of a process are slow
    for repeat in range(options.repeats):
        for arm, run in arms.items():
            start = time.perf_counter()
            ids = run(options.tokens, arm[1])
            times[arm].append(time.perf_counter() - start)
            wrong[arm] |= ids != right
            say(f"{title}, run {repeat + 1} of {options.repeats}: {arm[0]}, gamma {arm[1]}: {times[arm][-1]:.1f} s")
    return times, wrong


def table(speeds: dict, wrong: dict, limit: float, gammas: list[int]) -> str:
    lines = ["| | ours, tokens/s | of the limit | over our baseline | transformers, tokens/s | of the limit | ours over transformers | ids |",
             "|---|---|---|---|---|---|---|---|"]
    for gamma in [0, *gammas]:
        ours, theirs = speeds["ours", gamma], speeds["transformers", gamma]
        title = f"speculative, gamma {gamma}" if gamma else "plain"
        ids = "DIFFERENT" if wrong["ours", gamma] or wrong["transformers", gamma] else "equal"
        lines.append(f"| {title} | {ours:.2f} | {ours / limit:.0%} | {ours / speeds['ours', 0]:.2f} | {theirs:.2f} | "
                     f"{theirs / limit:.0%} | {ours / theirs:.2f} | {ids} |")
    return "\n".join(lines)


def print_passes(who: str, models: dict, limit: float) -> None:
    """limit: how many times a second the model's weights can be read."""
    for rows, times in passes(models).items():
        print(f"\nOne pass of the {who} over n tokens, laid out for {rows}: " + ", ".join(
            f"n={n} {1000 * seconds:.0f} ms ({seconds * limit:.2f} times the limit)" for n, seconds in times.items()) + ".", flush=True)


def passes(models: dict) -> dict[int, dict[int, float]]:
    """For each model, the median seconds of one pass over n tokens behind the prompt, for each n of ROWS."""
    times = {key: {n: [] for n in ROWS} for key in models}
    caches = {key: model.new_cache(len(PROMPT) + max(ROWS)) for key, model in models.items()}
    for key, model in models.items():
        model.forward(torch.tensor([PROMPT]), caches[key], last=0)
    for n in 7 * ROWS:
        for key, model in models.items():
            times[key][n].append(seconds(partial(model.forward, torch.tensor([PROMPT[:n]]), caches[key])))
            caches[key].truncate(len(PROMPT))
    return {key: {n: median(values) for n, values in by_n.items()} for key, by_n in times.items()}


def bandwidth(device: str) -> float:
    """Bytes per second of summing 1 GiB, which no cache holds: the best of several runs."""
    block = torch.ones(2**28, device=device)
    best = min(seconds(block.sum) for _ in range(10))
    return block.numel() * block.element_size() / best


def seconds(work: Callable[[], object]) -> float:
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - start


def machine(device: str) -> str:
    return (f"{processor(device)}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}, "
            f"torch {torch.__version__}, transformers {transformers.__version__}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
