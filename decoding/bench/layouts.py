"""How long one product takes in each layout: the tables of model/fast/README.md.

    python -m decoding.bench.layouts > layouts.md

The shapes are those of GPT-2 Large's layers. Each layout holds enough matrices that no processor
keeps them all in its cache, the layouts take turns, and medians of clean samples count, those in
which no thread waited for a core. "reading" adds up a matrix's numbers in float32, or reads as many
bytes as it has.

Exit codes: 0 done; 1 memory ran out; 2 bad input; 130 interrupted.
"""
import argparse
import sys

from weights.console import OneLineParser, run_program, whole
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.layouts"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: measure(argv), smaller="--dtype bfloat16")


def measure(argv: list[str] | None) -> None:
    """Read the options, then measure."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__, allow_abbrev=False,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32",
        help="number format of the weights (default: %(default)s)")
    parser.add_argument("--tokens", metavar="N", type=whole(1), nargs="+", default=[1, 2, 5],
        help="tokens read at once (default: 1 2 5)")
    options = parser.parse_args(argv)
    bind_threads()
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.bench.layout_table import print_table

    print_table(options.dtype, options.tokens)


if __name__ == "__main__":
    sys.exit(main())
