"""The command line of `python -m decoding.generate`: what may be asked, and what is filled in.

Imports no torch.
"""
import argparse
import math
import re
import secrets
import sys

from decoding.cli.models import LOOKUP, list_models, usual_draft
from decoding.cli.refusals import refuse
from decoding.gamma import DEFAULT_GAMMA, LARGEST_GAMMA
from decoding.shapes import TREE_FORM, tree
from weights.console import (
    LARGEST_SEED,
    SAME_SEED,
    OneLineParser,
    add_machine_options,
    real,
    whole,
)
from weights.errors import WeightsError
from weights.processes.start import launched
from weights.registry import DEFAULT_TARGET, resolve

DEFAULT_PROMPT = "Once upon a time"
DEFAULT_TEMPERATURE = 0.8  # greedy text of a small model runs in circles
DEFAULT_AT_ONCE = 8


def gamma(text: str) -> int | str:
    """Return how many tokens to draft, or "auto"; an argparse type."""
    return text if text == "auto" else whole(0, LARGEST_GAMMA)(text)


def not_empty(text: str) -> str:
    """Return a text that is not empty; an argparse type."""
    if text == "":
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def stop_string(text: str) -> str:
    """Return a text that is not empty, escapes read; an argparse type."""
    return unescape(not_empty(text))


def unescape(text: str) -> str:
    r"""Return a text with \n, \t and \\ replaced by what they stand for; an argparse type."""
    escapes = {"n": "\n", "t": "\t", "\\": "\\"}
    return re.sub(r"\\([nt\\])", lambda found: escapes[found[1]], text)


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m decoding.generate", allow_abbrev=False,
        description="Continue a text by speculative decoding, and show what it gained over plain "
                    "decoding. The text goes to stdout, everything else to stderr.")
    add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT",
        help=f'the text to continue (default: "{DEFAULT_PROMPT}")')
    add("--prompt-file", metavar="F", type=not_empty,
        help="read the prompt from a UTF-8 file, used whole; - is stdin")
    add("--prompts-file", metavar="F", type=not_empty,
        help='continue many prompts, several in each pass: F, or - for stdin, has a JSON object a '
             'line, {"prompt": ...} and if you like "max_new_tokens" and "seed"; for each a line '
             "of JSON is printed, in the same order")
    add("--at-once", metavar="N", type=whole(1),
        help="with --prompts-file: continue N prompts at once; a waiting one takes the place of "
             f"one that has ended (default: {DEFAULT_AT_ONCE})")
    add("--target", metavar="NAME", default=DEFAULT_TARGET,
        help="the model whose text is wanted: a known name, a hub repository owner/name, or a "
             "folder (default: %(default)s)")
    add("--draft", metavar="NAME",
        help=f"the model that proposes tokens, or {LOOKUP}, which copies what followed the last "
             "time (default: the target's usual partner, see --list-models)")
    add("--mode", choices=["compare", "speculative", "baseline"],
        help="speculative decoding, plain decoding, or both side by side (default: compare; with "
             "--quiet speculative)")
    add("--gamma", metavar="N", type=gamma,
        help="tokens drafted per round, or auto: as many as have paid so far; as the clock then "
             f"decides, a seed need not give the same text again (default: {DEFAULT_GAMMA})")
    add("--tree", metavar="SHAPE", type=tree,
        help=f"draft several candidates for a position: {TREE_FORM}; a CPU gains little by it")
    add("--max-new-tokens", metavar="N", type=whole(0), default=200,
        help="stop after N new tokens (default: %(default)s)")
    add("--temperature", metavar="T", default=DEFAULT_TEMPERATURE,
        type=real(0, math.inf, "a finite number of at least 0", True),
        help="0 is greedy, 1 the model's own distribution (default: %(default)s)")
    add("--top-k", metavar="K", type=whole(1), help="sample from the K most likely tokens only")
    add("--top-p", metavar="P", type=real(0, 1, "above 0 and at most 1", False),
        help="sample from the smallest set of most likely tokens whose mass reaches P")
    add("--rule", choices=["token", "block"],
        help="judge drafted tokens one by one, or together, which keeps more of them (default: "
             "token)")
    add("--coupling", choices=["gumbel"],
        help="decide by noise that belongs to positions in the text: the same seed then gives the "
             "same text in both modes")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED),
        help=f"repeat a sampled run: {SAME_SEED} (default: drawn, and printed)")
    add_machine_options(parser)
    add("--compile", action="store_true",
        help="on CUDA: record the passes of both models once, and replay them as CUDA graphs")
    add("--processes", metavar="N", type=whole(1),
        help="split the target by its heads over N processes of this machine, each with a GPU of "
             "its own if there are any: for a target larger than one device. On several machines "
             "torchrun starts them. If one does not answer for a minute, the run ends")
    add("--no-cache", action="store_true", help="run both models without a key/value cache")
    add("--stop", metavar="TEXT", action="append", type=stop_string,
        help="end the text where TEXT begins, which is not printed; can be given several times; "
             r"\n, \t and \\ are read as in Python")
    add("--ignore-eos", action="store_true",
        help="go on after an end-of-text, which is not printed")
    add("--allow-special", action="store_true",
        help="read <|endoftext|> in the prompt as the token, not as text")
    add("--trace", action="store_true", help="explain each round in a table")
    add("--step", action="store_true",
        help="--trace in three stages, after an Enter each: what is drafted, the target's answer, "
             "the verdict")
    add("--rejected", action="store_true",
        help="show in the text which drafted tokens were rejected: struck through, or without "
             "colours between ~~ and ~~")
    add("--record", metavar="FILE", type=not_empty,
        help="also write the rounds into FILE, to be shown again (see decoding/recording.py)")
    add("--json", action="store_true", help="print one JSON object instead of the text")
    add("--color", choices=["auto", "always", "never"], default="auto",
        help="colour each token by where it came from (default: on a terminal)")
    add("--quiet", action="store_true", help="print nothing but the text")
    add("--list-models", action="store_true",
        help="list the known models, where they are and how large, and stop")
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the options, checked, every default filled in.

    What makes no sense ends the program with one line and code 2.
    """
    parser = make_parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        why = ("that begins with - goes last, after --" if unknown[0].startswith("-") else
               "of several words needs quotes")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; a prompt {why}")
    if options.list_models:
        print(list_models())
        sys.exit(0)
    refusal = refuse(options)
    if refusal:
        parser.error(refusal)
    fill_in(options, parser)
    return options


def fill_in(options: argparse.Namespace, parser: OneLineParser) -> None:
    """Replace what was left open by what it stands for, and check the models' names."""
    batch = options.prompts_file is not None
    if batch and options.at_once is None:
        options.at_once = DEFAULT_AT_ONCE
    if options.mode is None and batch:
        options.mode = "speculative"
    if options.mode is None:
        options.mode = "speculative" if options.quiet and not options.json else "compare"
    if options.prompt is None and options.prompt_file is None and not batch:
        options.prompt = DEFAULT_PROMPT
    if options.temperature > 0 and options.seed is None:
        options.seed = secrets.randbelow(LARGEST_SEED)
    sampled = options.temperature > 0 and options.coupling is None and options.tree is None
    if sampled and options.mode != "baseline" and options.rule is None:
        options.rule = "token"
    options.trace = options.trace or options.step
    options.processes = options.processes or launched() or None
    try:
        resolve(options.target)
        if options.mode != "baseline":
            if options.gamma is None and options.tree is None:
                options.gamma = DEFAULT_GAMMA
            if options.draft is None:
                options.draft = usual_draft(options.target)
            if options.draft != LOOKUP:
                resolve(options.draft)
    except WeightsError as error:
        parser.error(str(error))
