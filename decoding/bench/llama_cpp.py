"""Side by side with llama.cpp, on the same weights and the same threads.

    python -m decoding.bench.llama_cpp --build        once: many minutes
    python -m decoding.bench.llama_cpp > table.md

--build compiles llama.cpp for this processor, from the source package of llama-cpp-python, and a
small driver of ours (decoding/bench/llama_cpp_driver) that decodes one round when it is asked for
one; nothing is installed. Needs cmake, ninja or make, and a C++ compiler.

Then both continue the same prompt greedily, plainly and speculatively, and take turns after every
few rounds. The checkpoints are written as GGUF into a temporary folder: the counting models of
decoding/bench/counting.py, and the bundled pair. Prints one table and how to read it. All of it
takes many minutes; --pairs and --dtypes run a part. decoding/bench/README.md says what came out.
"""
import argparse
import sys
from importlib.util import find_spec

from decoding.bench.llama_cpp_build import PeerError, build, find_driver
from decoding.bench.peers import check, make_parser
from weights.console import complain, run_program
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.llama_cpp"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: compare(argv), failures=(PeerError,),
                       smaller="smaller --pairs or --dtypes bfloat16")


def compare(argv: list[str] | None) -> int:
    """Refuse what makes no sense, then build or compare. Return the exit code."""
    options = parse(argv)
    check(options)
    if options.build:
        build()
        return 0
    find_driver()
    if find_spec("gguf") is None:
        return complain(PROGRAM, "the library gguf is not installed; "
                        "pip install -r decoding/bench/requirements.txt", 1)
    # Not before: from the first moment on Ctrl-C is caught.
    bind_threads()
    from decoding.bench import llama_cpp_peer
    from decoding.bench.side_by_side import compare_all

    compare_all(options, llama_cpp_peer)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, each checked by itself."""
    parser = make_parser(PROGRAM, str(__doc__), ["float32", "bfloat16"])
    parser.add_argument("--build", action="store_true",
        help="compile llama.cpp and its driver, and compare nothing")
    parser.set_defaults(device="cpu", compile=False)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
