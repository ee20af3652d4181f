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

PROGRAM = "python -m decoding.bench.transformers"


def main() -> None:
    """Run the comparison that the command line asks for."""
    options = parse()
    if find_spec("transformers") is None:
        sys.exit(f"{PROGRAM}: the library transformers is not installed; "
                 "pip install -r tests/requirements.txt")
    from decoding.bench.side_by_side import compare_all

    compare_all(options)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", default="large", help="size of the target (default: %(default)s)")
    add("--draft", default="small", help="size of the draft (default: %(default)s)")
    add("--spoil", type=float, nargs="+", default=[0.1, 0.2, 0.4],
        help="shares of ids the draft gets wrong (default: .1 .2 .4)")
    add("--gammas", type=int, nargs="+", default=[1, 2, 4, 8],
        help="tokens drafted per round (default: 1 2 4 8)")
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], help="default: float32 bfloat16")
    add("--tokens", type=int, default=60, help="new tokens per run (default: %(default)s)")
    add("--repeats", type=int, default=3,
        help="runs of each arm, of which the median counts (default: %(default)s)")
    add("--linear", default="auto",
        help="our matrix products, auto or plain (default: %(default)s)")
    add("--device", default="cpu", help="default: %(default)s")
    add("--compile", action="store_true", help="ours as CUDA graphs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
