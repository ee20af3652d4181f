"""What `python -m decoding.bench.layouts` measures and prints."""
import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from decoding.bench.machine import processor
from model.fast.onednn import OneDNNLinear
from model.fast.rows import RowLinear
from model.fast.slabs import SlabLinear
from model.fast.strips import StripLinear
from model.fast.timing import Layer, apply, clean_samples, filled

SHAPES = (3840, 1280), (1280, 1280), (5120, 1280), (1280, 5120)  # (n_out, n_in)
TOGETHER = 2**27  # bytes of the matrices of one shape in one layout
ROUNDS = 5  # of clean samples


def print_table(dtype: str, tokens: list[int]) -> None:
    """Print a row for each layout of each shape, as soon as the shape is measured."""
    print(f"Microseconds for one product of so many tokens, {dtype}; {processor('cpu')}, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| weight | layout |", *(f"{n} token{'s' * (n > 1)} |" for n in tokens))
    print("|---|---|" + "---|" * len(tokens))
    for shape in SHAPES:
        for name, times in product_times(shape, getattr(torch, dtype), tokens):
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
    layers = layers_of([filled(like) for _ in range(copies)])
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


def layers_of(plain: list[torch.nn.Linear]) -> dict[str, list[Layer]]:
    """Return the layers in each layout, and what only reads their memory."""
    made: dict[str, list[Layer]] = {
        "reading": [sum_of(torch.ones(layer.weight.nbytes // 4)) for layer in plain],
        "plain": list(plain)}
    makers: dict[str, Callable[..., Layer]] = {
        "rows": RowLinear,
        **{f"strips of {width}": partial(StripLinear, width=width) for width in (16, 32)},
        "onednn": OneDNNLinear}
    if plain[0].weight.dtype == torch.float32:
        makers["slabs"] = SlabLinear  # a layout for this format only
    for name, make in makers.items():
        try:
            made[name] = [make(layer.weight, layer.bias) for layer in plain]
        except (AttributeError, RuntimeError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return made


def sum_of(block: torch.Tensor) -> Layer:
    """Return a layer that adds up a block of memory, whatever it is given."""
    return lambda x: block.sum()
