"""`python -m decoding.generate`: continue a text by speculative decoding, and show what it gained.

Exit codes: 0 done; 1 a file could not be downloaded; 2 bad input, with one line that says what; 130 interrupted.
"""
import os
import sys
from argparse import Namespace
from pathlib import Path

from decoding.console import make_safe
from decoding.options import parse
from weights.errors import DownloadError


def main(argv: list[str] | None = None) -> int:
    make_safe()
    try:
        options = parse(argv)
        prompt = read_prompt(options)
        # Two OpenMP threads can land on one core and make every operation 8 ms. OpenMP reads this when
        # torch is imported, which is here and no sooner: it takes seconds, and --help and most refusals do without.
        os.environ.setdefault("OMP_PROC_BIND", "true")
        from decoding.session import run

        run(options, prompt)
        return 0
    except DownloadError as error:
        return complain(str(error), 1)
    except ValueError as error:  # WeightsError is one
        return complain(str(error), 2)
    except KeyboardInterrupt:
        return complain("interrupted", 130)
    except BrokenPipeError:  # whoever read the text has had enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def read_prompt(options: Namespace) -> str:
    """The text to continue. Raises ValueError if its file cannot be read, or it is not UTF-8."""
    if options.prompt_file is None:
        raw, where = os.fsencode(options.prompt), "the prompt"
    else:
        raw, where = read_file(options.prompt_file), f"the prompt file {options.prompt_file}"
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8: {error}") from error


def read_file(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the prompt file {name}: {error.strerror}") from error


def complain(line: str, code: int) -> int:
    print(f"python -m decoding.generate: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
