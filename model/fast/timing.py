"""Timing of layers that compute the same: is one of them clearly faster than the preferred one?

They are timed as a model uses them: many layers one after the other, whose weights do not all fit
into the processor's cache. Only clean samples count: those in which no thread of this process had
to wait for a core. On a busy machine there may be too few of them; then nothing is said.
"""
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from torch import Tensor, nn

from model.decoder import Decoder
from model.meta import NoInitialValues

SECONDS, TURNS = 0.15, 7  # the most time, and clean samples, for each number of tokens
FEWEST = 5  # clean samples without which nothing is said; so many turns there are in any case
WAITED = 0.02  # share of a sample that threads may have waited for a core
MARGIN = 1.25  # another layout is taken if it is this many times as fast as the preferred one
# Bytes of weights that each candidate is timed with. Taking turns, the candidates push each other's
# weights out of the processor's cache.
SAMPLE = 2**24

Layer = Callable[[Tensor], Tensor]
Key = TypeVar("Key")


def choose(candidates: dict[Key, list[Layer]], like: Tensor, widths: list[int],
           tokens: int) -> Key | None:
    """Return the key of the first candidate, unless another is clearly faster.

    Returns None if the machine is too busy to tell.

    candidates: for each key, layers that are called one after the other; the preferred one first.
    like: a tensor of their dtype, on their device.
    widths: of each layer's input.

    A candidate's time is its time for one token plus that for `tokens`: the median of its clean
    samples, but for the preferred one the least.
    """
    preferred = next(iter(candidates))
    if len(candidates) == 1:
        return preferred
    totals = dict.fromkeys(candidates, 0.0)
    for n in {1, tokens}:
        xs = [like.new_ones(1, n, width) for width in widths]
        calls: dict[Key, Callable[[], None]] = {
            key: partial(apply, layers, xs) for key, layers in candidates.items()}
        for key, samples in clean_samples(calls).items():
            if len(samples) < FEWEST:
                return None
            totals[key] += min(samples) if key == preferred else median(samples)
    fastest = min(totals, key=lambda key: totals[key])
    return fastest if totals[fastest] * MARGIN < totals[preferred] else preferred


def clean_samples(calls: dict[Key, Callable[[], None]]) -> dict[Key, list[float]]:
    """Return the seconds of each call's clean samples. The calls take turns."""
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    end = time.perf_counter() + SECONDS
    for call in calls.values():
        call()  # the first is slow
    turns = 0
    while min(map(len, samples.values())) < TURNS and (turns < FEWEST or time.perf_counter() < end):
        turns += 1
        for key, call in calls.items():
            waited, started = seconds_waited(), time.perf_counter()
            call()
            seconds = time.perf_counter() - started
            if seconds_waited() - waited <= WAITED * seconds:
                samples[key].append(seconds)
    return samples


def seconds_waited() -> float:
    """Return how long this process's threads have waited for a core; 0 where no system tells."""
    waited = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):  # Linux: running, waiting, turns
        try:
            waited += int(path.read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
    return waited / 1e9


def apply(layers: list[Layer], xs: list[Tensor]) -> None:
    """Call each layer with its input."""
    for layer, x in zip(layers, xs, strict=True):
        layer(x)


def sample(model: Decoder) -> list[nn.Linear]:
    """Return layers of the model's shapes, on the CPU: one block's, or more, up to SAMPLE bytes.

    All weights are 1: products with other numbers take as long.
    """
    blocks = blocks_of(model)
    layers = linear_layers(blocks[0])
    size = sum(layer.weight.nbytes for layer in layers)
    return [filled(layer) for layer in layers * max(1, min(len(blocks), SAMPLE // size))]


def blocks_of(model: nn.Module) -> nn.ModuleList:
    """Return the list of the model's blocks."""
    return next(part for part in model.modules() if isinstance(part, nn.ModuleList))


def linear_layers(part: nn.Module) -> list[nn.Linear]:
    """Return the part's layers that are nn.Linear, packed ones left out."""
    return [layer for layer in part.modules() if isinstance(layer, nn.Linear)]


def filled(layer: nn.Linear) -> nn.Linear:
    """Return an nn.Linear of the same shape and dtype, on the CPU, filled with ones."""
    n_out, n_in = layer.weight.shape
    with NoInitialValues():
        copy = nn.Linear(n_in, n_out, device="cpu", dtype=layer.weight.dtype)
    for weight in copy.requires_grad_(False).parameters():
        weight.fill_(1)
    return copy
