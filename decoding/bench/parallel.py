"""What does a pass cost when the target is split over several processes, and what should it cost?

    python -m decoding.bench.parallel

For each number of processes: T(1) and T(5), a pass over one and over five tokens; beside them what
is expected from two things measured on the same processes, how fast all of them read memory at the
same time, and what one sum over them takes:

    T = bytes that process 0 reads / its bandwidth + 2 * layers * one sum

A sum of few numbers takes as long as one of none, and on one machine processes share the memory's
bandwidth. So on a CPU it loses, unless the model does not fit otherwise. --arithmetic prints what
the same formula says of GPUs; it measures nothing.

Exit codes: 0 done; 1 another process has ended, a file could not be fetched, or memory ran out;
2 bad input; 130 interrupted.
"""
import argparse
import sys

from weights.console import OneLineParser, add_machine_options, run_program, whole
from weights.errors import DownloadError, ProcessLost
from weights.processes.start import follow_launched, is_follower, launched
from weights.registry import DEFAULT_TARGET, resolve

PROGRAM = "python -m decoding.bench.parallel"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    if is_follower():
        return follow_launched()
    return run_program(PROGRAM, lambda: measure(argv), failures=(DownloadError, ProcessLost),
                       smaller="a smaller model or --dtype bfloat16")


def measure(argv: list[str] | None) -> None:
    """Read the options, then measure, or do the arithmetic."""
    options = parse(argv)
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    if options.arithmetic:
        from decoding.bench.parallel_table import print_arithmetic

        print_arithmetic()
    else:
        from decoding.bench.parallel_table import print_table

        print_table(options)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, every default filled in. Raises ValueError for no model."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__, allow_abbrev=False,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", metavar="NAME", default=DEFAULT_TARGET,
        help="the model that is split (default: %(default)s)")
    add("--processes", metavar="N", type=whole(1), nargs="+",
        help="how many (default: 1 2 4, under torchrun as many as it has started)")
    add("--arithmetic", action="store_true",
        help="measure nothing: print what the formula says of A100 and H100 GPUs")
    add_machine_options(parser)
    options = parser.parse_args(argv)
    resolve(options.target)
    if launched() and options.processes is not None:
        raise ValueError(f"torchrun has started {launched()} processes; leave out --processes")
    usual = [launched()] if launched() else [1, 2, 4]
    options.processes = sorted(set(options.processes or usual))
    return options


if __name__ == "__main__":
    sys.exit(main())
