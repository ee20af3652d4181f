"""`python -m decoding.generate`: continue a text by speculative decoding, and show what it gained.

Exit codes: 0 done; 1 a file could not be fetched, read or written, memory ran out, or another
process has ended; 2 bad input, with one line that says what; 130 interrupted.
"""
import sys

from weights.console import run_program
from weights.errors import DownloadError, ProcessLost
from weights.processes.start import follow_launched, is_follower, share_cores, together
from weights.threads import bind_threads

PROGRAM = "python -m decoding.generate"
SMALLER = "a smaller model, --dtype bfloat16 or --device cpu"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    if is_follower():
        return follow_launched()
    return run_program(PROGRAM, lambda: generate(argv), failures=(DownloadError, ProcessLost),
                       smaller=SMALLER)


def generate(argv: list[str] | None) -> int:
    """Read the options and the prompt, refuse what makes no sense, then run.

    Returns the exit code.
    """
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.cli.console import loading
    from decoding.cli.options import parse

    options = parse(argv)
    if options.processes is not None:
        share_cores(options.processes)
    if options.prompts_file is not None:
        from decoding.cli.prompts_file import read_lines

        lines = read_lines(options)
        with loading(options):
            bind_threads()
            from decoding.cli.batch import run_batch

        with together(options.processes, PROGRAM) as group:
            return run_batch(options, lines, group)
    from decoding.cli.prompt import read_prompt

    prompt = read_prompt(options)
    with loading(options):
        bind_threads()
        from decoding.cli.run import run

    with together(options.processes, PROGRAM) as group:
        run(options, prompt, group)
    return 0


if __name__ == "__main__":
    sys.exit(main())
