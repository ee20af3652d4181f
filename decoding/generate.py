"""`python -m decoding.generate`: continue a text by speculative decoding, and show what it gained.

Exit codes: 0 done; 1 a file could not be fetched, read or written; 2 bad input, with one line that says what; 130 interrupted.
"""
import os
import sys

from decoding.cli.console import make_safe, print_no_more
from weights.errors import DownloadError


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Returns the exit code."""
    make_safe()
    try:
        generate(argv)
        return 0
    except DownloadError as error:
        return complain(str(error), 1)
    except ValueError as error:  # WeightsError is one
        return complain(str(error), 2)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the text, or "^C", stands on the line
        return complain("interrupted", 130)
    except BrokenPipeError:  # whoever read the text has had enough, as in `| head`
        print_no_more()
        return 0
    except OSError as error:
        complain(f"reading or writing failed: {error}", 1)
        print_no_more()
        return 1


def generate(argv: list[str] | None) -> None:
    # Imported here and not above, so that from the first moment on `main` is there to catch Ctrl-C.
    from decoding.cli.options import parse

    try:
        options = parse(argv)
        prompt = read_prompt(options.prompt, options.prompt_file)
        # Two OpenMP threads can land on one core and make every operation 8 ms. OpenMP reads this when
        # torch is imported, which is here and no sooner: it takes seconds, and --help and most refusals do without.
        os.environ.setdefault("OMP_PROC_BIND", "true")
        from decoding.cli.session import run

        run(options, prompt)
    finally:
        sys.stdout.flush()  # here, where it can still be told if nobody reads it, or the disk is full


def read_prompt(prompt: str | None, file: str | None) -> str:
    """The text to continue: `prompt`, or what is in the file. Raises ValueError if it cannot be read, or is not UTF-8."""
    where = "the prompt" if file is None else f"the prompt file {file}"
    try:
        if file is None:
            # Bytes of the command line that are not in the console's encoding are hidden in the string as surrogates.
            return prompt.encode("utf-8", "surrogateescape").decode("utf-8")
        return read_file(file).decode("utf-8-sig")  # without the mark that some editors begin a file with
    except UnicodeError as error:
        raise ValueError(f"{where} is not UTF-8 ({error}); convert it to UTF-8") from error
    except OSError as error:
        raise ValueError(f"cannot read {where}: {error.strerror}; give a text file, or - for stdin") from error


def read_file(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


def complain(line: str, code: int) -> int:
    print(f"python -m decoding.generate: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
