"""What all programs share: options, exit codes, one line for whatever goes wrong, and where to run.

Imports no torch at the top, so that `--help`, refusals and Ctrl-C are answered at once.
"""
import argparse
import math
import shlex
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from weights.errors import DownloadError
from weights.terminal import make_safe, one_line, print_no_more, tell

LARGEST_SEED = 2**32 - 1
SAME_SEED = "the same text again on the same machine with the same number of threads"
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


class OneLineParser(argparse.ArgumentParser):
    """A parser whose refusals are one line, without the usage."""

    def print_help(self, file: Any = None) -> None:
        """Print the help. Unlike argparse's own, raises OSError if the disk does not take it."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with code 2."""
        if message.endswith("expected one argument"):
            message += "; one that begins with - goes after =, as in --option=-x"
        tell(f"{self.prog}: {one_line(message)}; --help lists all options")
        sys.exit(2)


class FileParser(OneLineParser):
    """A parser that also takes `@FILE`: options in a file, on lines of their own.

    A line is read as a shell would; what follows # is a comment.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, fromfile_prefix_chars="@")

    def convert_arg_line_to_args(self, arg_line: str) -> list[str]:
        """Return the words of one line of a file."""
        return shlex.split(arg_line, comments=True)


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Return an argparse type: a whole number from least to most."""
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be a whole number {limits}, not {text!r}")
        return value
    return parse


def real(low: float, high: float, what: str, low_allowed: bool) -> Callable[[str], float]:
    """Return an argparse type: a finite number between low and high."""
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        inside = low < value <= high or (low_allowed and value == low)
        if not inside or math.isinf(value):
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}")
        return value
    return parse


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add --device, --dtype and --layout: where and how a model is run."""
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto",
        help="where to run (default: %(default)s)")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16", "float16"],
        default="float32",
        help="number format of the weights; auto is that of the target's file, or float32 where "
             "the processor cannot multiply such numbers (default: %(default)s)")
    add_layout_option(parser)


def add_layout_option(parser: argparse.ArgumentParser) -> None:
    """Add --layout: how the weights lie in memory."""
    parser.add_argument("--layout", default="auto",
        choices=["auto", "plain", "rows", "strips", "slabs", "onednn"],
        help="of the weights in memory: the best there is here, nn.Linear's, the same with another "
             "product for one token, strips, slabs, or as the library oneDNN wants them "
             "(default: %(default)s)")


def run_program(program: str, body: Callable[[], int | None], *,
                failures: tuple[type[Exception], ...] = (DownloadError,),
                smaller: str = "a smaller model") -> int:
    """Run the body and return the exit code. If something went wrong, print one line on stderr.

    0: done (or the body's own code), or whoever read the output has had enough, as in `| head`.
    1: a file could not be fetched, read or written, memory ran out, or one of `failures`.
    2: bad input.
    130: interrupted; the text of a KeyboardInterrupt, if it has one, says what is kept.

    program: as it is called on the command line.
    smaller: what to try when memory runs out.
    """
    make_safe()
    try:
        try:
            return body() or 0
        finally:
            sys.stdout.flush()  # here, where it still shows whether anybody reads it
    except failures as error:
        return complain(program, str(error), 1)
    except ValueError as error:  # WeightsError is one
        return complain(program, str(error), 2)
    except KeyboardInterrupt as interrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the text, or "^C", stands on the line
        return complain(program, "; ".join(["interrupted", *map(str, interrupt.args)]), 130)
    except BrokenPipeError:
        print_no_more()
        return 0
    except OSError as error:
        complain(program, f"reading or writing failed: {error}", 1)
        print_no_more()
        return 1
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        reason = f" ({str(error).splitlines()[0]})" if str(error) else ""
        return complain(program, f"out of memory{reason}; try {smaller}", 1)


def complain(program: str, line: str, code: int) -> int:
    """Print one line on stderr, and return the exit code."""
    tell(f"{program}: {one_line(line)}")
    return code


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, Python's, the CPU's or an accelerator's."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def pick_device(name: str) -> str:
    """Return the device to run on; `auto` is the accelerator if there is one.

    Raises ValueError for one that is not there.
    """
    import torch

    present = {"cpu": True, "cuda": torch.cuda.is_available(),
               "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if present[device])
    if not present[name]:
        raise ValueError(f"there is no {name} device here; leave --device out, or say --device cpu")
    return name


def number(value: float | None, form: str) -> str:
    """Return a number in this format; n/a where there is none."""
    return "n/a" if value is None else format(value, form)
