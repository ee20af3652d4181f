"""What both comparisons do: write the models, let ours and the other library take turns, print."""
import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from decoding.bench.bandwidth import Bandwidth
from decoding.bench.contestants import our_contestants
from decoding.bench.counting_gpt2 import write_checkpoint
from decoding.bench.machine import processor
from decoding.bench.peer_table import Row, explanation, header, impossible, line
from decoding.bench.peers import TALES_PROMPT, counting_prompt
from decoding.bench.turns import Contestant, Record, Start, take_turns
from weights.checkpoint import find_weights
from weights.load import find_checkpoint
from weights.registry import BUNDLED
from weights.terminal import tell
from weights.tokenizer import load_tokenizer

WARM_UP = 8  # tokens of a run that nobody times: the first calls of a process are slow


class Peer(Protocol):
    """A module that brings another library: transformers_peer, llama_cpp_peer."""

    NAME: str

    def version(self) -> str: ...

    def contestants(self, folders: tuple[Path, Path | None], prompt: list[int], dtype: str,
                    scratch: Path, options: argparse.Namespace, /,
                    ) -> AbstractContextManager[tuple[dict[Contestant, Start], list[int]]]: ...


class Task(NamedTuple):
    """Two models on the disk, and what they are to continue."""

    models: str
    folders: tuple[Path, Path | None]
    prompt: list[int]
    expected: list[int] | None  # the right ids; None: whatever our plain loop writes


@torch.no_grad()
def compare_all(options: argparse.Namespace, peer: Peer) -> None:
    """Print one table; what is below it is printed even if the comparison is interrupted."""
    print(f"{processor(options.device)}, {torch.get_num_threads()} threads, "
          f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, "
          f"{peer.version()}\n\n{header(peer.NAME)}", flush=True)
    notes: list[str] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for task, dtype in product(tasks(Path(folder), options), options.dtypes):
                rows, note = compare(task, dtype, Path(folder), options, peer)
                print("\n".join(map(line, rows)), flush=True)
                notes += [note, *filter(None, map(impossible, rows))]
    finally:
        print("", explanation(), *notes, sep="\n\n" if notes else "\n", flush=True)


def tasks(folder: Path, options: argparse.Namespace) -> Iterator[Task]:
    """Yield each pair, its counting models written just before."""
    for pair in options.pairs:
        if pair.bundled:
            prompt = load_tokenizer(pair.target).encode(TALES_PROMPT)
            yield Task(str(pair), (BUNDLED[pair.target], BUNDLED[pair.draft]), prompt, None)
            continue
        prompt = counting_prompt(pair.target)
        expected = [prompt[-1] + 1 + i for i in range(options.tokens)]
        target = write(folder / pair.target, pair.target)
        for spoil in options.spoil if pair.draft else [0.0]:
            draft = pair.draft and write(folder / f"{pair.draft}-spoil-{spoil}", pair.draft, spoil)
            title = f"{pair}, spoil {spoil}" if draft else str(pair)
            yield Task(title, (target, draft), prompt, expected)


def write(folder: Path, size: str, spoil: float | None = None) -> Path:
    """Write a counting target, or a draft that counts wrong after a share of ids; if not there."""
    if not folder.exists():
        tell(f"writing {folder.name}")
        write_checkpoint(folder, size, spoil=spoil or 0.0, seed=0 if spoil is None else 1)
    return folder


def compare(task: Task, dtype: str, scratch: Path, options: argparse.Namespace,
            peer: Peer) -> tuple[list[Row], str]:
    """Return the rows of one pair in one number format, and how fast its weights can be read."""
    title = f"{dtype}, {task.models}"
    tell(f"{title}: loading")
    sizes = [nbytes(folder, dtype) for folder in task.folders if folder]
    memory = [Bandwidth(size, options.device) for size in sizes]
    ours = our_contestants(task.folders, task.prompt, getattr(torch, dtype), options)
    with peer.contestants(task.folders, task.prompt, dtype, scratch, options) as (theirs, pids):
        records = run(ours | theirs, [os.getpid(), *pids], memory, options, title)
    limits = [size / read.limit for size, read in zip(sizes, memory)]
    plain, their_plain = (records[Contestant(who, 0)] for who in ("ours", peer.NAME))
    rows = [Row(dtype, task.models, gamma, records[Contestant("ours", gamma)],
                records[Contestant(peer.NAME, gamma)], limits[0] + gamma * limits[-1], plain,
                their_plain, task.expected or plain.runs[0])
            for who, gamma in ours]
    return rows, f"{title}: " + "; ".join(
        f"{who} of {size / 1e6:,.1f} MB read at {read}"
        for who, size, read in zip(("target", "draft"), sizes, memory))


def run(starts: dict[Contestant, Start], pids: list[int], memory: list[Bandwidth],
        options: argparse.Namespace, title: str) -> dict[Contestant, Record]:
    """Let all take turns, once to warm up and then `repeats` times; read the memory in between."""
    warm_up = {contestant: Record() for contestant in starts}
    take_turns(starts, warm_up, min(WARM_UP, options.tokens), pids)
    records = {contestant: Record() for contestant in starts}
    for repeat in range(options.repeats):
        for read in memory:
            read.read()
        take_turns(starts, records, options.tokens, pids)
        clean = sum(len(record.clean) for record in records.values())
        timed = sum(len(record.timed) for record in records.values())
        tell(f"{title}: run {repeat + 1} of {options.repeats}; {clean} of {timed} rounds clean")
    for read in memory:
        read.read()
    return records


def nbytes(folder: Path, dtype: str) -> int:
    """Return the size of a model's weights in this number format."""
    model, _ = find_weights(find_checkpoint(folder), getattr(torch, dtype))
    return sum(weight.nbytes for weight in model.parameters())
