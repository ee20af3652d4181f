"""The command line of `python -m decoding.generate`: what may be asked, and what is refused.

Imports no torch.
"""
import argparse
import math
import secrets
import sys
from pathlib import Path

from decoding.gamma import DEFAULT_GAMMA
from weights.console import (
    LARGEST_SEED,
    SAME_SEED,
    OneLineParser,
    add_machine_options,
    real,
    whole,
)
from weights.errors import WeightsError
from weights.registry import DEFAULT_TARGET, DRAFT_OF, KNOWN_NAMES, resolve

DEFAULT_PROMPT = "Once upon a time"
DEFAULT_TEMPERATURE = 0.8  # greedy text of a small model runs in circles
LOOKUP = "lookup"  # the name of a draft that is no model
LARGEST_GAMMA = 1024  # GPT-2's context; a run counts the rounds for each number of accepted tokens


def gamma(text: str) -> int | str:
    """Return how many tokens to draft, or "auto"; an argparse type."""
    return text if text == "auto" else whole(0, LARGEST_GAMMA)(text)


def make_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m decoding.generate", allow_abbrev=False,
        description="Continue a text by speculative decoding, and show what it gained over plain "
                    "decoding. The text goes to stdout, everything else to stderr.")
    add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT",
        help=f'the text to continue (default: "{DEFAULT_PROMPT}")')
    add("--prompt-file", metavar="F",
        help="read the prompt from a UTF-8 file, used whole; - is stdin")
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
    add("--max-new-tokens", metavar="N", type=whole(0), default=200,
        help="stop after N new tokens (default: %(default)s)")
    add("--temperature", metavar="T", default=DEFAULT_TEMPERATURE,
        type=real(0, math.inf, "a finite number of at least 0", True),
        help="0 is greedy, 1 the model's own distribution (default: %(default)s)")
    add("--top-k", metavar="K", type=whole(1), help="sample from the K most likely tokens only")
    add("--top-p", metavar="P", type=real(0, 1, "above 0 and at most 1", False),
        help="sample from the smallest set of most likely tokens whose mass reaches P")
    add("--coupling", choices=["gumbel"],
        help="decide by noise that belongs to positions in the text: the same seed then gives the "
             "same text in both modes")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED),
        help=f"repeat a sampled run: {SAME_SEED} (default: drawn, and printed)")
    add_machine_options(parser)
    add("--compile", action="store_true",
        help="on CUDA: record the passes of both models once, and replay them as CUDA graphs")
    add("--no-cache", action="store_true", help="run both models without a key/value cache")
    add("--ignore-eos", action="store_true",
        help="go on after an end-of-text, which is not printed")
    add("--allow-special", action="store_true",
        help="read <|endoftext|> in the prompt as the token, not as text")
    add("--trace", action="store_true", help="explain each round in one line")
    add("--step", action="store_true", help="--trace, and wait for Enter before each round")
    add("--record", metavar="FILE",
        help="also write the rounds into FILE, to be shown again (see decoding/recording.py)")
    add("--json", action="store_true", help="print one JSON object instead of the text")
    add("--color", choices=["auto", "always", "never"], default="auto",
        help="colour each token by where it came from (default: on a terminal)")
    add("--quiet", action="store_true", help="print nothing but the text")
    add("--list-models", action="store_true", help="list the known models and stop")
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the options, checked, every default filled in.

    What makes no sense ends the program with one line and code 2.
    """
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.list_models:
        print(list_models())
        sys.exit(0)
    refusal = refuse(options)
    if refusal:
        parser.error(refusal)
    fill_in(options, parser)
    return options


def refuse(options: argparse.Namespace) -> str | None:
    """Return why this combination of options is refused, if it is.

    Mostly because one of them would do nothing.
    """
    if options.prompt is not None and options.prompt_file is not None:
        return "give PROMPT or --prompt-file, not both"
    if options.step and options.prompt_file == "-":
        return ("--step waits for Enter on stdin, and --prompt-file - reads the prompt from there; "
                "give a file")
    if options.json and options.color != "auto":
        return "--color does nothing with --json"
    if options.quiet and (options.trace or options.step):
        return "--quiet would silence --trace and --step"
    if options.quiet and options.mode == "compare" and not options.json:
        return "--quiet would silence the comparison; add --json, or choose another --mode"
    if options.compile and options.no_cache:
        return "--compile does nothing with --no-cache: what it replays are steps with a cache"
    if options.record is not None and not Path(options.record).absolute().parent.is_dir():
        return f"there is no folder for --record {options.record}; make it first"
    if options.temperature == 0:
        for name in ("seed", "top_k", "top_p", "coupling"):
            if getattr(options, name) is not None:
                return f"{flag(name)} does nothing in greedy mode; set a --temperature above 0"
    if options.mode == "baseline":
        for name in ("draft", "gamma", "trace", "step", "record"):
            said = getattr(options, name)
            if said is not None and said is not False:  # 0 was said, and is refused
                return f"{flag(name)} does nothing in baseline mode, which has no draft"
        if options.color == "always":
            return "--color does nothing in baseline mode, where all tokens have the same origin"
    return None


def fill_in(options: argparse.Namespace, parser: OneLineParser) -> None:
    """Replace what was left open by what it stands for, and check the models' names."""
    if options.mode is None:
        options.mode = "speculative" if options.quiet and not options.json else "compare"
    if options.prompt is None and options.prompt_file is None:
        options.prompt = DEFAULT_PROMPT
    if options.temperature > 0 and options.seed is None:
        options.seed = secrets.randbelow(LARGEST_SEED)
    options.trace = options.trace or options.step
    try:
        resolve(options.target)
        if options.mode != "baseline":
            options.gamma = DEFAULT_GAMMA if options.gamma is None else options.gamma
            if options.draft is None:
                options.draft = usual_draft(options.target)
            if options.draft != LOOKUP:
                resolve(options.draft)
    except WeightsError as error:
        parser.error(str(error))


def usual_draft(target: str) -> str:
    """Return the draft of a target of a known name. Raises WeightsError where there is none."""
    if target not in DRAFT_OF:
        raise WeightsError(f"no draft is known for {target}; name one with --draft, "
                           "or use --mode baseline")
    return DRAFT_OF[target]


def list_models() -> str:
    """Return the known names, a line each, with the draft that goes with them."""
    drafts = {name: f"draft: {DRAFT_OF[name]}" if name in DRAFT_OF else "" for name in KNOWN_NAMES}
    return "\n".join(f"{name:14}{draft}".rstrip() for name, draft in drafts.items())


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
