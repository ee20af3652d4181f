"""llama.cpp as a contestant: a process that decodes one round whenever it is asked for one."""
import argparse
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from decoding.bench.llama_cpp_build import VERSION, PeerError, find_driver
from decoding.bench.to_gguf import write_gguf
from decoding.bench.turns import Contestant, Rounds, Start
from weights import threads

NAME = "llama.cpp"


def version() -> str:
    return f"llama.cpp of llama-cpp-python {VERSION}"


@contextmanager
def contestants(folders: tuple[Path, Path | None], prompt: list[int], dtype: str,
                scratch: Path, options: argparse.Namespace,
                ) -> Iterator[tuple[dict[Contestant, Start], list[int]]]:
    """Start the driver; yield how each contestant starts a run, and the driver's process id."""
    target, draft = folders
    cache_type = "f32" if dtype == "float32" else "f16"  # f16 is llama.cpp's own choice
    with Driver(find_driver(), as_gguf(target, dtype, scratch),
                draft and as_gguf(draft, dtype, scratch), cache_type) as driver:
        gammas = [0, *options.gammas] if draft else [0]
        yield ({Contestant(NAME, gamma): driver.start(gamma, prompt, options.tokens)
                for gamma in gammas}, [driver.process.pid])


def as_gguf(folder: Path, dtype: str, scratch: Path) -> Path:
    """Return a GGUF file of a checkpoint, written if it is not there yet."""
    file = scratch / f"{folder.name}-{dtype}.gguf"
    if not file.exists():
        write_gguf(folder, file, dtype)
    return file


class Driver:
    """The process, and what is said to it: llama_cpp_driver/driver.cpp has the lines."""

    def __init__(self, program: Path, target: Path, draft: Path | None, cache_type: str) -> None:
        command = [program, target, draft or "-", str(torch.get_num_threads()), cache_type]
        bind = {"OMP_PROC_BIND": "true"} if threads.bound else {}  # as ours are
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=os.environ | bind)

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, *words: object) -> tuple[float, list[int]]:
        """Say a line; return the seconds and the ids of the answer. Raises PeerError if none comes.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # then no answer comes
            print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            raise PeerError(f"llama.cpp's driver ended with exit code {self.process.wait()}")
        return float(answer[0]), [int(word) for word in answer[1:]]

    def start(self, gamma: int, prompt: list[int], new_tokens: int) -> Start:
        """Return how a run starts."""
        def rounds() -> Rounds:
            self.ask("start", gamma, new_tokens, *prompt)
            while True:
                yield self.ask("round", gamma)
        return rounds
