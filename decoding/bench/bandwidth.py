"""How fast the weights can be read: what no step of a decoding loop can beat.

One reading is no limit: on a shared machine it comes out low whenever others use the memory. So the
memory is read in several ways, before, between and after the runs that are compared with it, and
the fastest reading of all counts.
"""
from collections.abc import Callable
from math import inf
from time import perf_counter

import torch

from decoding.bench.costs import seconds

LARGEST = 2**30  # bytes; no cache holds them
ROW, STRIP = 4096, 16  # a row of the matrix-vector product, and the width of a strip
READING_SECONDS = 1.0


class Bandwidth:
    """Readings of a block of memory as large as a model's weights, or of LARGEST bytes.

    As large as the weights, because a small model's may stay in the processor's cache.
    """

    def __init__(self, nbytes: int, device: str) -> None:
        unit = 4 * ROW * STRIP
        self.block = torch.ones(max(unit, min(nbytes, LARGEST) // unit * unit) // 4, device=device)
        self.readers = readers(self.block)
        self.readings: list[tuple[float, str]] = []  # bytes per second, and the fastest reader

    @torch.no_grad()
    def read(self) -> None:
        """Take one more reading: all readers in turns, and of them the fastest."""
        best = dict.fromkeys(self.readers, inf)
        started = perf_counter()
        while inf in best.values() or perf_counter() - started < READING_SECONDS:
            for name, reader in self.readers.items():
                best[name] = min(best[name], seconds(reader))
        fastest = min(best, key=lambda name: best[name])
        self.readings.append((self.block.nbytes / best[fastest], fastest))

    @property
    def limit(self) -> float:
        """Bytes per second."""
        return max(self.readings)[0]

    def __str__(self) -> str:
        speed, reader = max(self.readings)
        lowest = min(self.readings)[0]
        return (f"{speed / 1e9:.1f} GB/s (by {reader}; {len(self.readings)} readings around the "
                f"runs, {lowest / 1e9:.1f} to {speed / 1e9:.1f})")


def readers(block: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Return ways to read a whole block, each with little else to do."""
    matrix, row = block.view(-1, ROW), block.new_ones(ROW)
    strips, rows = block.view(-1, ROW, STRIP), block.new_ones(block.numel() // ROW // STRIP, 1, ROW)
    slabs = block.view(STRIP, -1, ROW)
    column = block.new_ones(STRIP, 1, slabs.shape[1])
    return {"sum": block.sum, "dot product": lambda: torch.dot(block, block),
            "matrix times vector": lambda: torch.mv(matrix, row),
            "strips times vector": lambda: torch.bmm(rows, strips),
            "slabs times vector": lambda: torch.bmm(column, slabs)}
