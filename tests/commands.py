"""Running `python -m decoding.generate` in this process or in a new one; a small pair for it."""
import base64
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import torch

from decoding.generate import main
from model import GPT2, GPT2Config
from weights.training.folder import write_folder

ROOT = Path(__file__).parent.parent
PROGRAM = [sys.executable, "-m", "decoding.generate"]
END_OF_TEXT = 256
N_CTX = 96


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def ask(capsys, *arguments) -> Answer:
    """What the program answers, run in this process."""
    with patch.dict(os.environ):  # it sets a variable, which other tests shall not inherit
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse's way to end
            code = stop.code
    return Answer(code, *capsys.readouterr())


class PressesCtrlC(io.StringIO):
    """A terminal, and someone who presses Ctrl-C there as soon as it shows `when`."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        n = super().write(text)
        if self.when and self.when in text:
            self.when = ""
            signal.raise_signal(signal.SIGINT)
        return n


def one_line(answer: Answer, code: int = 2) -> str:
    """The line of a refusal, once it is seen to be nothing but that."""
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("python -m decoding.generate: ")
    assert answer.err.index("\n") == len(answer.err) - 1
    return answer.err


def run_script(script: str, *arguments, **options) -> subprocess.CompletedProcess:
    """A Python script in a new process that finds the packages."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=180, check=False,
                          **options)


def environment(**changes: str) -> dict[str, str]:
    """The variables for a new process.

    Its output is buffered, as a user's is, and it need not stay on the first core, where every
    other process of a busy machine may have been bound, too.
    """
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "PYTHONUNBUFFERED": "",
            **changes}


def write_pair(folder: Path, draft_ctx: int = N_CTX) -> list[str]:
    """Write two models whose tokens are the 256 bytes and <|endoftext|>; the draft is often right.

    Returns the options. They make the run greedy; a test that wants another --temperature says so
    after them.

    Random weights, so the text is random bytes, hardly ever whole characters;
    <|endoftext|> is not rare.
    """
    generator = torch.Generator().manual_seed(3)
    vocabulary = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    noise = {}
    for name, n_ctx in (("target", N_CTX), ("draft", draft_ctx)):
        config = GPT2Config(n_layer=1, n_head=2, n_embd=16, n_vocab=257, n_ctx=n_ctx)
        weights = GPT2(GPT2Config(1, 2, 16, 257, N_CTX)).state_dict()
        for key, weight in weights.items():
            if key not in noise:
                noise[key] = torch.randn(weight.shape, generator=generator)
            weights[key] = (noise[key] + (name == "draft") * 0.1
                            * torch.randn(weight.shape, generator=generator)) * 0.4
        weights["wte.weight"][END_OF_TEXT] *= 2
        weights["wpe.weight"] = weights["wpe.weight"][:n_ctx]
        write_folder(folder / name, config, weights, vocabulary, card="")
    return ["--target", str(folder / "target"), "--draft", str(folder / "draft"),
            "--layout", "plain", "--temperature", "0"]
