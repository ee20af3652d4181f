"""The command line of `python -m decoding.benchmark`: what may be asked, and what is refused.

Imports no torch.
"""
import argparse
import math
import shlex
from pathlib import Path

from decoding.bench.arms import WAYS, all_arms
from decoding.bench.prompts import default_prompts, read_prompts
from decoding.shapes import TREE_FORM, tree
from weights.config import read_context
from weights.console import (
    LARGEST_SEED,
    SAME_SEED,
    FileParser,
    add_machine_options,
    real,
    whole,
)
from weights.memory import check_memory
from weights.processes.start import launched
from weights.registry import DEFAULT_TARGET, DRAFT_OF, resolve
from weights.tokenizer import load_tokenizer, vocabulary_difference

PROGRAM = "python -m decoding.benchmark"
DEFAULTS = {"lengths": [50, 100, 200, 500], "temperatures": [0.0, 1.0], "repeats": 3,
            "out": "results"}
ROW_BYTES = 2000  # at least, in memory
SHORT = {"lengths": [64], "temperatures": [0.0], "repeats": 1, "out": None}  # of --tune


def make_parser() -> FileParser:
    parser = FileParser(
        prog=PROGRAM, allow_abbrev=False,
        description="Measure speculative decoding against the plain loop: rows, tables and plots "
                    "into a folder, the tables also to stdout. @FILE reads options from a file, "
                    "as those in decoding/experiments.")
    add = parser.add_argument
    temperature = real(0, math.inf, "a finite number of at least 0", True)
    add("--target", metavar="NAME", default=DEFAULT_TARGET,
        help="the model whose text is wanted (default: %(default)s)")
    add("--draft", metavar="NAME",
        help="the model that proposes tokens (default: the target's usual partner)")
    add("--gammas", metavar="N", type=whole(1), nargs="+", default=[1, 2, 3, 4, 6, 8],
        help="tokens drafted per round (default: 1 2 3 4 6 8)")
    add("--rules", choices=WAYS, nargs="+", default=list(WAYS[:1]),
        help="how drafted tokens are judged: one by one, or as a block (default: token)")
    add("--trees", metavar="SHAPE", type=tree, nargs="+", default=[],
        help=f"also draft trees: {TREE_FORM}")
    add("--lengths", metavar="N", type=whole(1), nargs="+",
        help="new tokens per run (default: 50 100 200 500)")
    add("--temperatures", metavar="T", type=temperature, nargs="+",
        help="0 is greedy (default: 0 1)")
    add("--prompts", metavar="F",
        help="a UTF-8 file of prompts, each after a line `=== kind` (default: "
             "decoding/bench/prompts.txt, without the code for the bundled models)")
    add("--repeats", metavar="N", type=whole(1),
        help="runs of the same kind, of which the median counts (default: 3)")
    add("--no-cache-arms", action="store_true",
        help="also without the key/value cache of the draft, the target, and both")
    add("--eos", action="store_true",
        help="stop at end-of-text (default: go on, so that all runs have the same length)")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED), default=0,
        help=f"of the sampled runs: {SAME_SEED} (default: 0)")
    add_machine_options(parser)
    add("--compile", action="store_true",
        help="on CUDA: replay the passes of runs with a cache as CUDA graphs")
    add("--processes", metavar="N", type=whole(1),
        help="split the target over N processes of this machine (see decoding.generate)")
    add("--out", metavar="DIR",
        help="the folder for rows.jsonl, costs.json, tables.md and the plots (default: results)")
    add("--resume", action="store_true",
        help="go on in a folder that has rows already, and measure what is missing")
    add("--stand-in", action="store_true",
        help="try the same with small random models of the same families, 8 tokens long: their "
             "numbers say nothing")
    add("--tune", action="store_true",
        help="only find the best gamma from a short run (64 tokens, greedy), and write nothing")
    return parser


def parse(argv: list[str]) -> tuple[argparse.Namespace, dict[str, list[int]]]:
    """Return the options with every default filled in, and the ids of each prompt.

    Loads no model. Raises ValueError for what makes no sense, DownloadError if a repository's
    config.json cannot be fetched.
    """
    options = make_parser().parse_args(argv)
    options.command = shlex.join([*PROGRAM.split(), *argv])
    fill_in(options)
    options.processes = processes(options)
    if options.stand_in:
        from decoding.bench.stand_in import stand_in  # torch, which nothing else here needs

        stand_in(options)
        options.lengths, options.repeats = [8], 1
    if options.prompts is None:
        texts = default_prompts(options.target)
    else:
        texts = read_prompts(options.prompts)
    prompts = encode(options.target, options.draft, texts)
    check_context(options, prompts)
    check_rows(options, prompts)
    return options, prompts


def fill_in(options: argparse.Namespace) -> None:
    """Give every option that was left out its value.

    Raises ValueError for options that would do nothing, or no model.
    """
    if options.tune:
        for name in ("out", "resume", "no_cache_arms", "trees", "stand_in"):
            if getattr(options, name):
                raise ValueError(f"--{name.replace('_', '-')} does nothing with --tune, "
                                 "which writes no files and compares gammas only")
    for name, value in (SHORT if options.tune else DEFAULTS).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    for name in ("gammas", "lengths", "temperatures"):
        setattr(options, name, sorted(set(getattr(options, name))))
    options.rules = [rule for rule in WAYS if rule in options.rules]
    options.trees = list(dict.fromkeys(options.trees))
    for name in ("trees", "processes"):
        if options.compile and getattr(options, name):
            raise ValueError(f"--compile does nothing with --{name}, whose passes run plain")
    resolve(options.target)
    if options.draft is None:
        if options.target not in DRAFT_OF:
            raise ValueError(f"no draft is known for {options.target}; name one with --draft")
        options.draft = DRAFT_OF[options.target]
    if options.out is not None:
        options.out = Path(options.out)


def processes(options: argparse.Namespace) -> int | None:
    """Return how many processes the target is split over. Raises ValueError if torchrun says it."""
    if options.processes is not None and launched():
        raise ValueError(f"torchrun has started {launched()} processes; leave out --processes")
    return options.processes or launched() or None


def encode(target: str, draft: str, texts: dict[str, str]) -> dict[str, list[int]]:
    """Return the ids of each prompt. Raises ValueError for models of different vocabularies."""
    tokenizer = load_tokenizer(target)
    difference = vocabulary_difference(tokenizer, load_tokenizer(draft))
    if difference:
        raise ValueError(f"{target} and {draft} have different vocabularies: {difference}")
    return {kind: tokenizer.prompt(text) for kind, text in texts.items()}


def check_context(options: argparse.Namespace, prompts: dict[str, list[int]]) -> None:
    """Raise ValueError if a run, or a block of gamma + 1 tokens, does not fit into a context."""
    n_ctx = min(read_context(options.target), read_context(options.draft))
    kind, ids = max(prompts.items(), key=lambda item: len(item[1]))
    for option, new in (("--lengths", options.lengths[-1]), ("--gammas", options.gammas[-1])):
        needed = new + (option == "--gammas")
        if len(ids) + needed > n_ctx:
            raise ValueError(f"{option} {new} does not fit: the prompt {kind!r} has {len(ids)} "
                             f"tokens, and the context {n_ctx}")


def check_rows(options: argparse.Namespace, prompts: dict[str, list[int]]) -> None:
    """Raise ValueError for more rows than this machine's memory holds."""
    arms = len(all_arms(options.gammas, options.no_cache_arms, options.rules, options.trees))
    tests = arms * len(options.lengths) * len(options.temperatures) * len(prompts)
    check_memory(ROW_BYTES * tests * options.repeats, f"--repeats {options.repeats}, for each of "
                 f"{tests} combinations of prompt, length, temperature and gamma,")
