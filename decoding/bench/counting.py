"""Write a GPT-2 checkpoint of official shape whose right greedy continuation is known: it counts.

    python -m decoding.bench.counting FOLDER --size large

After token id i the model predicts id i + 1 (modulo the vocabulary). Every matrix has its full size
and is really multiplied, so timings are those of the official model, and the answer is known
without running any other program. How: decoding/bench/counting_gpt2.py.
"""
import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from decoding.bench.sizes import SIZES, share
from weights.console import LARGEST_SEED, OneLineParser, real, run_program, whole
from weights.output import make_folder

PROGRAM = "python -m decoding.bench.counting"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: write(argv), smaller="a smaller --size")


def write(argv: list[str] | None) -> None:
    """Refuse what makes no sense, then write the checkpoint."""
    options = vars(parse(argv))
    folder = options.pop("folder")
    with ExitStack() as stack:
        try:
            make_folder(folder, stack)
            folder.mkdir(exist_ok=True)  # fails if it is a file
        except OSError as error:
            raise ValueError(f"cannot write into {folder}: {error.strerror}") from error
        # Imported here and not above, so that from the first moment on Ctrl-C is caught.
        import torch

        from decoding.bench.counting_gpt2 import write_checkpoint

        dtype = getattr(torch, options.pop("dtype"))
        write_checkpoint(folder, options.pop("size"), dtype=dtype, **options)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, checked."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folder", metavar="FOLDER", type=Path, help="where config.json and model.safetensors go")
    add("--size", choices=SIZES, default="small", help="default: %(default)s")
    add("--spoil", metavar="P", type=share, default=0.0,
        help="roughly the share of ids after which it counts wrong (default: 0)")
    add("--sharpness", metavar="X", type=real(0, 100, "above 0, at most 100", False), default=3.0,
        help="the winning logit in units of log(n_vocab): 3 is almost certain, 1.2 a soft "
             "distribution to sample from (default: 3)")
    add("--noise", metavar="X", type=real(0, 100, "from 0 to 100", True), default=0.3,
        help="how much the blocks add that has nothing to do with counting (default: 0.3)")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED), default=0,
        help="of the noise and of what is spoilt (default: 0)")
    add("--dtype", choices=["float32", "float16", "bfloat16"], default="float32",
        help="number format of the weights (default: %(default)s)")
    add("--prefix", action="store_true", help='begin the names with "transformer."')
    add("--no-buffers", dest="buffers", action="store_false",
        help="without the mask buffers h.N.attn.bias")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
