"""Side by side with the library transformers, in one process and on the same weights.

    python -m decoding.bench.transformers > table.md

On a GPU: --pairs large/small --device cuda --compile --dtypes bfloat16.

Both continue the same prompt greedily, plainly and speculatively (assisted generation there), and
take turns after every few rounds. Counting models (decoding/bench/counting.py) are written into a
temporary folder: of official shape, and the right ids are known. Prints one table and how to read
it. All of it takes many minutes; --pairs and --dtypes run a part. decoding/bench/README.md says
what came out.
"""
import argparse
import sys
from importlib.util import find_spec

from decoding.bench.peers import check, make_parser
from weights.console import complain, pick_device, run_program
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.transformers"
SMALLER = "smaller --pairs, --dtypes bfloat16 or --device cpu"
NEEDED = ("transformers", "greenlet")


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: compare(argv), smaller=SMALLER)


def compare(argv: list[str] | None) -> int:
    """Refuse what makes no sense, then compare. Return the exit code."""
    options = parse(argv)
    check(options)
    if options.compile and options.device != "cuda":
        raise ValueError("--compile records CUDA graphs, and needs --device cuda")
    for library in NEEDED:
        if find_spec(library) is None:
            return complain(PROGRAM, f"the library {library} is not installed; "
                            "pip install -r decoding/bench/requirements.txt", 1)
    # Not before: from the first moment on Ctrl-C is caught.
    bind_threads()
    pick_device(options.device)
    from decoding.bench import transformers_peer
    from decoding.bench.side_by_side import compare_all

    compare_all(options, transformers_peer)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, each checked by itself."""
    parser = make_parser(PROGRAM, str(__doc__), ["float32", "bfloat16", "float16"])
    parser.add_argument("--device", choices=["cpu", "cuda", "mps"], default="cpu",
        help="where to run (default: %(default)s)")
    parser.add_argument("--compile", action="store_true",
        help="ours as CUDA graphs, with --device cuda")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
