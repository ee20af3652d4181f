"""Side by side with the library transformers, in one process and on the same weights.

    OMP_PROC_BIND=true python -m decoding.bench.transformers > table.md

On a GPU: add --device cuda --compile, and --dtypes bfloat16 is the number format to look at.

Writes a counting target and counting drafts of official shape (decoding/bench/counting.py) into a
temporary folder, so the right ids are known. Every arm continues the same prompt greedily by the
same number of tokens, is timed as a whole, prompt included, and takes turns with the others. The
limit is what reading the target's weights from memory once per token would allow; plain decoding
cannot beat it, speculative decoding can. On a CPU our target is loaded twice, laid out for reading
one token and for verifying the largest gamma, since the best layout for one is not the best for the
other; run a gamma on its own to see it at its best. With Large as the target one gamma and one
share of spoilt ids take about six minutes, and the whole a multiple of that; --gammas, --spoil and
--dtypes run a part.
"""
import argparse
import sys
from importlib.util import find_spec

from decoding.bench.sizes import SIZES, share
from weights.console import (
    OneLineParser,
    add_layout_option,
    complain,
    pick_device,
    run_program,
    whole,
)

PROGRAM = "python -m decoding.bench.transformers"
SMALLER = "a smaller --target, --dtypes bfloat16 or --device cpu"
PROMPT_LENGTH = 16


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: compare(argv), smaller=SMALLER)


def compare(argv: list[str] | None) -> int:
    """Refuse what makes no sense, then compare. Return the exit code."""
    options = parse(argv)
    check(options)
    options.prompt = counting_prompt(options.target)
    if find_spec("transformers") is None:
        return complain(PROGRAM, "the library transformers is not installed; "
                        "pip install -r tests/requirements.txt", 1)
    pick_device(options.device)
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.bench.side_by_side import compare_all

    compare_all(options)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, each checked by itself."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", choices=SIZES, default="large",
        help="size of the target (default: %(default)s)")
    add("--draft", choices=SIZES, default="small",
        help="size of the draft (default: %(default)s)")
    add("--spoil", metavar="P", type=share, nargs="+", default=[0.1, 0.2, 0.4],
        help="shares of ids the draft gets wrong (default: .1 .2 .4)")
    add("--gammas", metavar="N", type=whole(1), nargs="+", default=[1, 2, 4, 8],
        help="tokens drafted per round (default: 1 2 4 8)")
    add("--dtypes", choices=["float32", "bfloat16", "float16"], nargs="+",
        default=["float32", "bfloat16"],
        help="number formats of the weights (default: float32 bfloat16)")
    add("--tokens", metavar="N", type=whole(1), default=60,
        help="new tokens per run (default: %(default)s)")
    add("--repeats", metavar="N", type=whole(1), default=3,
        help="runs of each arm, of which the median counts (default: %(default)s)")
    add_layout_option(parser)
    add("--device", choices=["cpu", "cuda", "mps"], default="cpu",
        help="where to run (default: %(default)s)")
    add("--compile", action="store_true", help="ours as CUDA graphs, with --device cuda")
    return parser.parse_args(argv)


def check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together."""
    if options.compile and options.device != "cuda":
        raise ValueError("--compile records CUDA graphs, and needs --device cuda")
    *_, n_vocab, n_ctx = SIZES[options.target]
    *_, draft_vocab, _ = SIZES[options.draft]
    if n_vocab != draft_vocab:
        raise ValueError(f"{options.target} and {options.draft} have different vocabularies: "
                         f"{n_vocab} and {draft_vocab} tokens")
    for name, new in (("tokens", options.tokens), ("gammas", max(options.gammas) + 1)):
        if PROMPT_LENGTH + new > n_ctx:
            raise ValueError(f"--{name} {new - (name == 'gammas')} does not fit: the prompt has "
                             f"{PROMPT_LENGTH} tokens, and the context {n_ctx}")


def counting_prompt(size: str) -> list[int]:
    """Return ids that count up, low enough never to reach the last id, which leads to 0."""
    *_, n_vocab, _ = SIZES[size]
    start = min(1000, n_vocab // 4)
    return list(range(start, start + PROMPT_LENGTH))


if __name__ == "__main__":
    sys.exit(main())
