"""What `python -m decoding.bench.parallel` measures and prints."""
import argparse
import os
from dataclasses import dataclass

import torch

from decoding.bench.bandwidth import Bandwidth
from decoding.bench.costs import forward_seconds, seconds
from decoding.bench.machine import machine
from model.decoder import Decoder
from model.fast.layouts import layout_name
from model.fast.timing import blocks_of
from model.parallel import SharedOut
from weights.console import pick_device
from weights.fast import load_fast, pick_dtype
from weights.processes.group import Group
from weights.processes.load import load_leader
from weights.processes.start import share_cores, together
from weights.terminal import tell

PROGRAM = "python -m decoding.bench.parallel"
HELD = 128  # tokens in the cache before a timed pass
TOKENS = 5  # gamma + 1
SUMS = 200

# Bytes per second, and seconds of a sum by NCCL over NVLink: 10 µs, the latency alone.
GPUS = {"A100": (2.0e12, 10e-6), "H100": (3.35e12, 10e-6)}
# In bfloat16: bytes and layers.
SIZES = {"GPT-2 Large": (1.55e9, 36), "8B": (16e9, 32), "13B": (26e9, 40), "30B": (60e9, 60)}


@dataclass(frozen=True)
class Measured:
    """What was measured with so many processes, in seconds and bytes."""

    title: str
    layout: str
    times: list[float]  # T(1), T(2), ...
    nbytes: int  # that process 0 reads in a pass
    bandwidth: float  # bytes per second of process 0, while the others read, too
    n_layer: int
    sums: dict[int, float]  # a sum over the processes, for 1 and TOKENS tokens; 0: there is none

    def line(self) -> str:
        """Return the line of the table."""
        cells = [f"{1000 * self.times[n - 1]:.2f}, {1000 * self.expected(n):.2f}"
                 for n in (1, TOKENS)]
        ratio = self.times[TOKENS - 1] / self.times[0]
        sums = " / ".join(f"{1e6 * self.sums[n]:.0f}" for n in (1, TOKENS))
        return (f"| {self.title} | {self.layout} | {' | '.join(cells)} | {ratio:.2f} | {sums} "
                f"| {self.bandwidth / 1e9:.1f} | {self.nbytes / 1e6:.1f} |")

    def expected(self, n: int) -> float:
        return expected(self.nbytes, self.bandwidth, self.n_layer, self.sums[n])


def expected(nbytes: float, bandwidth: float, n_layer: int, one_sum: float) -> float:
    """Return the seconds of a pass in which a process reads so many bytes of weights."""
    return nbytes / bandwidth + 2 * n_layer * one_sum


def print_table(options: argparse.Namespace) -> None:
    """Measure and print line by line: the model whole, then for each number of processes."""
    device = pick_device(options.device)
    dtype = pick_dtype(options.dtype, options.target, device)
    facts = ", ".join(f"{name} {value}" for name, value in machine(device).items()
                      if name != "threads")
    print(f"{options.target}, {str(dtype).removeprefix('torch.')}, {HELD} tokens in the cache; "
          f"{facts}. Measured, then expected, in ms:\n")
    print("| processes | layout | T(1) | T(5) | T(5)/T(1) | a sum of 1 / 5 tokens, µs "
          "| GB/s of process 0 | MB it reads |\n" + "|---" * 8 + "|", flush=True)
    said = "OMP_NUM_THREADS" in os.environ
    for n in [None, *options.processes]:
        if not said:
            os.environ.pop("OMP_NUM_THREADS", None)
            share_cores(n or 1)
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        tell(f"measuring: {'not split' if n is None else n}")
        if n is None:
            model = load_fast(options.target, device, dtype, options.layout, TOKENS)
            found = measured("not split", model, device, {1: 0.0, TOKENS: 0.0},
                             read_memory(None, model, device))
            del model
        else:
            with together(n, PROGRAM) as group:
                assert group is not None
                found = measure(group, options, device, dtype)
        print(found.line(), flush=True)


def measure(group: Group, options: argparse.Namespace, device: str, dtype: torch.dtype) -> Measured:
    """Measure with the processes of a group."""
    leader = load_leader(group, options.target, device, dtype, options.layout, TOKENS)
    sums = {}
    for n in (1, TOKENS):
        group.announce("call", time_sums, n)
        sums[n] = time_sums(group, leader.share, n)
    group.announce("call", read_memory, device)
    bandwidth = read_memory(group, leader.share, device)
    return measured(str(group.size), leader, device, sums, bandwidth)


def measured(title: str, model: Decoder, device: str, sums: dict[int, float],
             bandwidth: float) -> Measured:
    times = forward_seconds(model, TOKENS, min(HELD, model.config.n_ctx - TOKENS))
    return Measured(title, layout_name(model), times, bytes_read(model), bandwidth,
                    model.config.n_layer, sums)


def bytes_read(model: Decoder) -> int:
    """Return the bytes of weights that a pass reads: those of the blocks and of the head."""
    weights = sum(weight.nbytes for weight in blocks_of(model).parameters())
    return weights + model.embedding.nbytes


@torch.no_grad()
def time_sums(group: Group, share: SharedOut, n: int) -> float:
    """Return the seconds of a sum over n tokens. Every process calls this at the same time."""
    y = torch.zeros(1, n, share.config.n_embd, device=share.device, dtype=share.dtype)
    group.add(y)  # the first is slow

    def sums() -> None:
        for _ in range(SUMS):
            group.add(y)
    return seconds(sums) / SUMS


def read_memory(group: Group | None, share: Decoder, device: str) -> float:
    """Return how many bytes per second this process reads, while the others do the same."""
    bandwidth = Bandwidth(bytes_read(share), device)
    bandwidth.read()
    return bandwidth.limit


def print_arithmetic() -> None:
    """Print what the formula says of GPUs, milliseconds per pass. Nothing of it was measured."""
    print("Arithmetic, not measured: bfloat16, ms per pass, H100 (A100), sums of "
          f"{1e6 * GPUS['H100'][1]:.0f} µs\n")
    counts = (1, 2, 4, 8)
    print("| model | " + " | ".join(f"{n} GPU{'s' * (n > 1)}" for n in counts) + " |\n"
          + "|---" * (1 + len(counts)) + "|")
    for name, (nbytes, n_layer) in SIZES.items():
        cells = []
        for n in counts:
            h100, a100 = (1000 * expected(nbytes / n, bandwidth, n_layer, one_sum * (n > 1))
                          for bandwidth, one_sum in (GPUS["H100"], GPUS["A100"]))
            cells.append(f"{h100:.2g} ({a100:.2g})")
        print(f"| {name}, {nbytes / 1e9:g} GB, {n_layer} layers | {' | '.join(cells)} |")
    print("\nTwo GPUs are faster than one where a layer is larger than 4 sums of bandwidth: "
          + ", ".join(f"{name} {4e-6 * bandwidth * one_sum:.0f} MB"
                      for name, (bandwidth, one_sum) in GPUS.items()) + ".")
