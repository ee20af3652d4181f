"""`python -m decoding.bench.join DIR...`: one table of the results in several folders.

A row for each pair, prompt and temperature, at the best gamma of that temperature, in the form of
published tables: acceptance rate and speed-up.
"""
import argparse
import sys
from pathlib import Path

from weights.console import OneLineParser, run_program

PROGRAM = "python -m decoding.bench.join"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: join(read_options(argv).folders))


def read_options(argv: list[str] | None) -> argparse.Namespace:
    parser = OneLineParser(prog=PROGRAM, allow_abbrev=False,
                           description="Print one table of the results in several folders of "
                                       "decoding.benchmark.")
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path,
                        help="what was given as --out")
    return parser.parse_args(argv)


def join(folders: list[Path]) -> None:
    """Print the tables by prompt of all folders as one.

    Raises ValueError for a folder without measured rows.
    """
    from decoding.bench.rows import ROWS, read_rows
    from decoding.bench.tables import by_prompt

    for number, folder in enumerate(folders):
        path = folder / ROWS
        rows = read_rows(path) if path.exists() else []
        if not rows:
            raise ValueError(f"{folder} has no results of decoding.benchmark: no rows in {path}")
        lines = by_prompt(rows).split("\n")
        print("\n".join(lines if number == 0 else lines[2:]))  # the head once


if __name__ == "__main__":
    sys.exit(main())
