"""How long one product takes in each layout: the tables of model/fast/README.md.

    python -m decoding.bench.layouts > layouts.md

The shapes are those of GPT-2 Large's layers. Each layout holds enough matrices that no processor
keeps them all in its cache, the layouts take turns, and medians of clean samples count, those in
which no thread waited for a core. "reading" adds up a matrix's numbers in float32, or reads as many
bytes as it has.

Exit codes: 0 done; 1 memory ran out; 2 bad input; 130 interrupted.
"""
import argparse
import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from model.fast.onednn import OneDNNLinear
from model.fast.rows import RowLinear
from model.fast.slabs import SlabLinear
from model.fast.strips import StripLinear
from model.fast.timing import Layer, apply, clean_samples, filled
from weights.console import OneLineParser, run_program, whole
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.layouts"
SHAPES = (3840, 1280), (1280, 1280), (5120, 1280), (1280, 5120)  # (n_out, n_in)
TOGETHER = 2**27  # bytes of the matrices of one shape in one layout
ROUNDS = 5  # of clean samples


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: measure(argv), smaller="--dtype bfloat16")


def measure(argv: list[str] | None) -> None:
    """Read the options, then print a row for each layout of each shape."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__, allow_abbrev=False,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32",
        help="number format of the weights (default: %(default)s)")
    parser.add_argument("--tokens", metavar="N", type=whole(1), nargs="+", default=[1, 2, 5],
        help="tokens read at once (default: 1 2 5)")
    options = parser.parse_args(argv)
    bind_threads()
    print("| weight | layout |", *(f"{n} |" for n in options.tokens))
    print("|---|---|" + "---|" * len(options.tokens))
    for shape in SHAPES:
        for name, times in product_times(shape, getattr(torch, options.dtype), options.tokens):
            cells = ("n/a" if time is None else f"{1e6 * time:.0f}" for time in times)
            print(f"| {shape[0]} × {shape[1]} | {name} |", *(f"{cell} |" for cell in cells))
        sys.stdout.flush()


@torch.no_grad()
def product_times(shape: tuple[int, int], dtype: torch.dtype,
                  tokens: list[int]) -> list[tuple[str, list[float | None]]]:
    """Return, for each layout there is here, seconds of one product for each number of tokens.

    None where the machine was too busy for a clean sample.
    """
    like = torch.nn.Linear(shape[1], shape[0], device="meta", dtype=dtype)
    copies = max(1, TOGETHER // like.weight.nbytes)
    layers = layers_of([filled(like) for _ in range(copies)], max(tokens))
    times: dict[str, list[float | None]] = {name: [] for name in layers}
    for n in tokens:
        xs = [torch.ones(1, n, shape[1], dtype=dtype)] * copies
        calls: dict[str, Callable[[], None]] = {
            name: partial(apply, same, xs) for name, same in layers.items()}
        samples: dict[str, list[float]] = {name: [] for name in layers}
        for _ in range(ROUNDS):
            for name, seconds in clean_samples(calls).items():
                samples[name] += seconds
        for name, seconds in samples.items():
            times[name].append(median(seconds) / copies if seconds else None)
    return list(times.items())


def layers_of(plain: list[torch.nn.Linear], tokens: int) -> dict[str, list[Layer]]:
    """Return the layers in each layout, and what only reads their memory."""
    made: dict[str, list[Layer]] = {
        "reading": [sum_of(torch.ones(layer.weight.nbytes // 4)) for layer in plain],
        "plain": list(plain)}
    makers: dict[str, Callable[..., Layer]] = {
        "rows": RowLinear, "slabs": SlabLinear,
        **{f"strips of {width}": partial(StripLinear, width=width) for width in (16, 32)},
        "onednn": partial(OneDNNLinear, tokens_per_pass=tokens)}
    for name, make in makers.items():
        try:
            made[name] = [make(layer.weight, layer.bias) for layer in plain]
        except (AttributeError, RuntimeError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return made


def sum_of(block: torch.Tensor) -> Layer:
    """Return a layer that adds up a block of memory, whatever it is given."""
    return lambda x: block.sum()


if __name__ == "__main__":
    sys.exit(main())
