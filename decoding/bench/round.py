"""Where every millisecond of a run goes: a pair's plain loop and its speculative loop.

    python -m decoding.bench.round --pair large/small

For each loop a table whose parts add up to the run: prefill, each kind of pass, and what is done
between them. A draft's pass over two tokens is the catch-up after a round in which all was
accepted. A second table says why a pass takes what it takes: reading its weights, the pass repeated
alone, after a pause in which threads fall asleep, and in turns with the other model, which pushes
its weights out of the processor's cache.
"""
import argparse
import sys

from decoding.bench.peers import TALES, check, parse_pair
from decoding.bench.sizes import share
from weights.console import OneLineParser, add_layout_option, pick_device, run_program, whole
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.round"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: account(argv), smaller="a smaller --pair")


def account(argv: list[str] | None) -> None:
    """Refuse what makes no sense, then measure and print."""
    options = parse(argv)
    if options.pair.draft is None:
        raise ValueError(f"--pair {options.pair.target} has no draft; name TARGET/DRAFT or {TALES}")
    if options.compile and options.device != "cuda":
        raise ValueError("--compile records CUDA graphs, and needs --device cuda")
    options.pairs, options.gammas, options.spoil = [options.pair], [options.gamma], [options.spoil]
    check(options)
    # Not before: from the first moment on Ctrl-C is caught.
    bind_threads()
    pick_device(options.device)
    from decoding.bench.round_tables import print_account

    print_account(options)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, each checked by itself."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--pair", metavar="PAIR", type=parse_pair, default=parse_pair("large/small"),
        help=f"TARGET/DRAFT of counting models, or {TALES} (default: large/small)")
    add("--spoil", metavar="P", type=share, default=0.2,
        help="the share of ids that a counting draft gets wrong (default: .2)")
    add("--gamma", metavar="N", type=whole(1), default=4,
        help="tokens drafted per round (default: 4)")
    add("--dtype", choices=["float32", "bfloat16", "float16"], default="float32",
        help="number format of the weights (default: %(default)s)")
    add("--tokens", metavar="N", type=whole(1), default=60,
        help="new tokens per run (default: %(default)s)")
    add("--repeats", metavar="N", type=whole(1), default=3,
        help="runs of each loop, of which that one counts whose threads waited least for a core "
             "(default: %(default)s)")
    add_layout_option(parser)
    add("--device", choices=["cpu", "cuda", "mps"], default="cpu",
        help="where to run (default: %(default)s)")
    add("--compile", action="store_true", help="as CUDA graphs, with --device cuda")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
