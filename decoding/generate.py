"""`python -m decoding.generate`: continue a text by speculative decoding, and show what it gained.

Exit codes: 0 done; 1 a file could not be fetched, read or written, or memory ran out; 2 bad input,
with one line that says what; 130 interrupted.
"""
import sys

from weights.console import bind_threads, run_program

PROGRAM = "python -m decoding.generate"
SMALLER = "a smaller model, --dtype bfloat16 or --device cpu"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: generate(argv), smaller=SMALLER)


def generate(argv: list[str] | None) -> None:
    """Read the options and the prompt, refuse what makes no sense, then run."""
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.cli.options import parse

    options = parse(argv)
    text = read_prompt(options.prompt, options.prompt_file)
    from decoding.cli.request import prepare

    request = prepare(options, text)
    bind_threads()
    from decoding.cli.session import run

    run(options, request)


def read_prompt(prompt: str | None, file: str | None) -> str:
    """Return the text to continue: `prompt`, or what is in the file.

    Raises ValueError if it cannot be read, or is not UTF-8.
    """
    where = "the prompt" if file is None else f"the prompt file {file}"
    try:
        if file is not None:
            return read_file(file).decode("utf-8-sig")  # without the mark some editors begin with
        # Bytes of the command line that are not in the console's encoding are hidden as surrogates.
        return (prompt or "").encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise ValueError(f"{where} is not UTF-8 ({error}); convert it to UTF-8") from error
    except OSError as error:
        raise ValueError(f"cannot read {where}: {error.strerror}; "
                         "give a text file, or - for stdin") from error


def read_file(name: str) -> bytes:
    """Return what is in a file; - is stdin."""
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
