"""`python -m decoding.benchmark`: does speculation pay here, for this pair, and with which gamma?

Exit codes: 0 done; 1 greedy ids differ, a file could not be fetched or written, memory ran out, or
another process has ended; 2 bad input, with one line that says what; 130 interrupted, and what was
measured is kept.
"""
import sys
from pathlib import Path

from decoding.bench.arms import NotLossless
from weights.console import run_program
from weights.errors import DownloadError, ProcessLost
from weights.output import claim
from weights.processes.start import follow_launched, is_follower, share_cores, together
from weights.threads import bind_threads

PROGRAM = "python -m decoding.benchmark"
SMALLER = "a smaller model, --dtype bfloat16 or --device cpu"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    if is_follower():
        return follow_launched()
    return run_program(PROGRAM, lambda: benchmark(sys.argv[1:] if argv is None else argv),
                       failures=(DownloadError, NotLossless, ProcessLost), smaller=SMALLER)


def benchmark(argv: list[str]) -> None:
    """Read the options, refuse what makes no sense, then measure."""
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.bench.options import parse
    from decoding.bench.rows import ROWS

    options, prompts = parse(argv)
    if options.processes is not None:
        share_cores(options.processes)
    if options.tune:
        bind_threads()
        from decoding.bench.sweep import tune

        with together(options.processes, PROGRAM) as group:
            tune(options, prompts, group)
        return
    with claim(options.out):
        check_rows(options.out, options.resume)
        bind_threads()
        try:
            from decoding.bench.sweep import sweep

            with together(options.processes, PROGRAM) as group:
                sweep(options, prompts, group)
        except KeyboardInterrupt:
            if not (options.out / ROWS).exists():
                raise
            raise KeyboardInterrupt(f"{options.out} keeps what was measured, "
                                    "--resume goes on") from None


def check_rows(folder: Path, resume: bool) -> None:
    """Raise ValueError if the folder has rows and --resume was not given."""
    from decoding.bench.rows import ROWS

    rows = folder / ROWS
    if rows.exists() and rows.stat().st_size > 0 and not resume:
        raise ValueError(f"{rows} has rows already; go on with --resume, or choose another --out")


if __name__ == "__main__":
    sys.exit(main())
