"""`python -m weights.convert NAME OUT`: write pytorch_model.bin anew as model.safetensors.

Exit code 0: done; 1: no download, or the disk is full; 2: bad input.

Some repositories, OPT's among them, have their weights as pytorch_model.bin only. `weights.pickled`
says how such a file is read, which this program alone does. The numbers and their format stay as
they are.
"""
import argparse
import sys
from pathlib import Path

from weights.console import OneLineParser, run_program

PROGRAM = "python -m weights.convert"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: run(argv))


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = OneLineParser(prog=PROGRAM, description="Write pytorch_model.bin anew as "
                                                     "model.safetensors, in a folder with "
                                                     "config.json and the vocabulary.")
    parser.add_argument("name", metavar="NAME", help="owner/name on the hub, or a ./folder")
    parser.add_argument("out", metavar="OUT", type=Path,
                        help="the folder to make, owner/name for what is then found by this name")
    return parser.parse_args(argv)


def run(argv: list[str] | None) -> None:
    """Convert the model that was named, and see whether it can be loaded."""
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from weights.errors import WeightsError
    from weights.registry import INDEX, WEIGHTS, resolve
    from weights.terminal import tell

    options = parse(argv)
    source, out = resolve(options.name), options.out
    if any((out / name).exists() for name in (WEIGHTS, INDEX)):
        raise WeightsError(f"{out} has safetensors already; name another folder")
    import torch

    from weights.checkpoint import find_weights
    from weights.load import find_checkpoint
    from weights.pickled import convert

    convert(source, out)
    find_weights(find_checkpoint(out), torch.float32)  # raises WeightsError
    tell(f"done; try python -m weights.check {out if out.parts[1:] else f'./{out}'}")


if __name__ == "__main__":
    sys.exit(main())
