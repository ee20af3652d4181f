"""What may be compared with another library, and how: the command line both comparisons share.

Imports no torch.
"""
import argparse
from typing import NamedTuple

from decoding.bench.sizes import SIZES, share
from weights.console import OneLineParser, add_layout_option, whole
from weights.registry import BUNDLED, DRAFT_OF

PROMPT_LENGTH = 16  # of the counting models
TALES, TALES_PROMPT = "tales", "Once upon a time"


class Pair(NamedTuple):
    """A target and its draft: sizes of counting models, or the bundled ones."""

    target: str
    draft: str | None = None  # None: the target decodes alone

    @property
    def bundled(self) -> bool:
        return self.target in BUNDLED

    def __str__(self) -> str:
        names = (self.target, self.draft) if self.draft else (f"{self.target} alone",)
        return " / ".join(names)


def parse_pair(text: str) -> Pair:
    """Return the pair that a word of the command line names; an argparse type."""
    if text == TALES:
        return Pair("tales-large", DRAFT_OF["tales-large"])
    target, slash, draft = text.partition("/")
    if target not in SIZES or (slash and draft not in SIZES):
        raise argparse.ArgumentTypeError(
            f"must be {TALES}, TARGET/DRAFT or TARGET, of {', '.join(SIZES)}, not {text!r}")
    if slash and SIZES[target][3] != SIZES[draft][3]:
        raise argparse.ArgumentTypeError(
            f"{target} and {draft} have different vocabularies: {SIZES[target][3]} and "
            f"{SIZES[draft][3]} tokens")
    return Pair(target, draft or None)


def make_parser(program: str, description: str, dtypes: list[str]) -> OneLineParser:
    """Return a parser of what both comparisons take. dtypes: the number formats there are."""
    parser = OneLineParser(prog=program, description=description,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--pairs", metavar="PAIR", type=parse_pair, nargs="+",
        default=[parse_pair(name) for name in ("large/small", TALES, "small")],
        help="TARGET/DRAFT or TARGET alone, counting models of these sizes: "
             f"{', '.join(SIZES)}; {TALES}: the bundled pair (default: large/small {TALES} small)")
    add("--spoil", metavar="P", type=share, nargs="+", default=[0.2],
        help="shares of ids that a counting draft gets wrong (default: .2)")
    add("--gammas", metavar="N", type=whole(1), nargs="+", default=[4],
        help="tokens drafted per round (default: 4)")
    add("--dtypes", choices=dtypes, nargs="+", default=["float32", "bfloat16"],
        help="number formats of the weights (default: float32 bfloat16)")
    add("--tokens", metavar="N", type=whole(1), default=60,
        help="new tokens per run (default: %(default)s)")
    add("--repeats", metavar="N", type=whole(1), default=3,
        help="runs of each contestant (default: %(default)s)")
    add_layout_option(parser)
    return parser


def check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together."""
    for pair in options.pairs:
        if pair.bundled:
            continue
        n_ctx = SIZES[pair.target][4]
        for name, new in (("tokens", options.tokens), ("gammas", max(options.gammas) + 1)):
            if PROMPT_LENGTH + new > n_ctx:
                raise ValueError(f"--{name} {new - (name == 'gammas')} does not fit: the prompt "
                                 f"has {PROMPT_LENGTH} tokens, and the context {n_ctx}")


def counting_prompt(size: str) -> list[int]:
    """Return ids that count up, low enough never to reach the last id, which leads to 0."""
    n_vocab = SIZES[size][3]
    start = min(1000, n_vocab // 4)
    return list(range(start, start + PROMPT_LENGTH))
