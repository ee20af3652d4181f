"""Every program besides generate: refusals before any work, Ctrl-C at once, files whole or not."""
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest
import torch

from decoding.bench import counting
from decoding.bench.counting_gpt2 import write_checkpoint
from tests.commands import ROOT, run_script
from weights import load_model

PROGRAMS = ["decoding.generate", "decoding.benchmark", "decoding.animation",
            "decoding.bench.transformers", "decoding.bench.llama_cpp", "decoding.bench.round",
            "decoding.bench.batches", "decoding.bench.parallel", "decoding.bench.counting",
            "decoding.evaluate",
            "weights.train", "weights.check"]


def run(capsys, module, *arguments):
    """(exit code, stdout, stderr) of a program, run in this process."""
    try:
        code = import_module(module).main([str(argument) for argument in arguments])
    except SystemExit as stop:  # argparse's way to end
        code = stop.code
    return code, *capsys.readouterr()


def refused(capsys, module, *arguments):
    """The one line of a refusal."""
    code, out, err = run(capsys, module, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"python -m {module}: ")
    return err


@pytest.mark.parametrize("arguments, reason", [
    ("--pairs nope", "--pairs"), ("--pairs tiny/nope", "--pairs"), ("--gammas -1", "at least 1"),
    ("--gammas x", "at least 1"), ("--gammas 0", "at least 1"), ("--dtypes int8", "--dtypes"),
    ("--layout nope", "--layout"), ("--device nope", "--device"), ("--spoil nan", "from 0 to 1"),
    ("--spoil 2", "from 0 to 1"), ("--tokens 0", "at least 1"), ("--repeats 0", "at least 1"),
    ("--compile", "needs --device cuda"),
    ("--pairs small/tiny", "50257 and 300"), ("--pairs tiny", "--tokens 60 does not fit"),
    ("--tokens 2000", "--tokens 2000 does not fit"),
    ("--gammas 1 1008", "--gammas 1008 does not fit"),
    pytest.param("--device cuda", "no cuda device", marks=pytest.mark.skipif(
        torch.cuda.is_available(), reason="there is one")),
])
def test_the_race_refuses_before_it_writes(capsys, monkeypatch, tmp_path, arguments, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert reason in refused(capsys, "decoding.bench.transformers", *arguments.split())
    assert not list(tmp_path.iterdir())


def test_the_smallest_race(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    short = "--pairs tiny/tiny --spoil .2 --gammas 3 --tokens 40 --repeats 1"
    with torch.enable_grad():  # as it was, afterwards
        code, out, err = run(capsys, "decoding.bench.transformers", *short.split(),
                             "--dtypes", "float32")
    assert code == 0, err
    assert "| speculative, γ = 3 |" in out and "DIFFERENT" not in out and out.count("equal") == 2
    assert "run 1 of 1" in err and not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("arguments, reason", [
    ("--pair tiny", "no draft"), ("--pair nope", "--pair"), ("--gamma 0", "at least 1"),
    ("--pair tiny/tiny", "--tokens 60 does not fit"), ("--compile", "needs --device cuda"),
])
def test_the_account_refuses_before_it_writes(capsys, monkeypatch, tmp_path, arguments, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert reason in refused(capsys, "decoding.bench.round", *arguments.split())
    assert not list(tmp_path.iterdir())


def test_the_smallest_account(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("decoding.bench.accounting.LEAST_SECONDS", 0.0)
    with torch.enable_grad():
        code, out, err = run(capsys, "decoding.bench.round", "--pair", "tiny/tiny", "--gamma", 3,
                             "--tokens", 30, "--repeats", 1)
    assert code == 0, err
    for line in ("| target: pass over 1 tokens | 30 |", "| target: pass over 4 tokens |",
                 "| draft: pass over 2 tokens |", "| accept, emit, rewind |", "| 100% |"):
        assert line in out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [
    "--spoil 2", "--spoil nan", "--spoil -.1", "--noise nan", "--noise inf", "--noise -1",
    "--sharpness 0", "--sharpness nan", "--sharpness 1e300", "--seed -1",
    "--seed 99999999999999999999999", "--size nope", "--dtype int8"])
def test_counting_refuses_before_it_writes(capsys, tmp_path, arguments):
    option = arguments.split()[0]
    line = refused(capsys, "decoding.bench.counting", tmp_path / "new", "--size", "tiny",
                   *arguments.split())
    assert option in line
    assert not list(tmp_path.iterdir())


def test_counting_needs_a_folder_that_can_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert f"cannot write into {folder}: " in refused(capsys, "decoding.bench.counting", folder)
    assert "FOLDER" in refused(capsys, "decoding.bench.counting")
    assert (tmp_path / "file").read_text() == "mine"


def test_counting_writes_what_its_options_say(capsys, tmp_path):
    words = "--size tiny --spoil .3 --sharpness 2 --noise .1 --seed 4 --dtype bfloat16 --prefix"
    assert counting.main([str(tmp_path / "a" / "b"), *words.split(), "--no-buffers"]) == 0
    write_checkpoint(tmp_path / "c", "tiny", spoil=0.3, sharpness=2, noise=0.1, seed=4,
                     dtype=torch.bfloat16, prefix=True, buffers=False)
    for name in ("config.json", "model.safetensors"):
        files = [(tmp_path / folder / name).read_bytes() for folder in ("a/b", "c")]
        assert files[0] == files[1]
    assert load_model(tmp_path / "c").config.n_vocab == 300


def test_the_picture_is_refused_before_a_model_is_loaded(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("weights.load_model", None, raising=False)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path, tmp_path / "no" / "run.svg", tmp_path / "file" / "run.svg", ""):
        assert "cannot write " in refused(capsys, "decoding.animation", "--out", out)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


INTERRUPTED = """
import os, signal, sys

_, program, imported, *arguments = sys.argv

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == imported:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Watch())
sys.argv[1:] = arguments
sys.exit(__import__(program, fromlist=["main"]).main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent there")
@pytest.mark.parametrize("program, imported, arguments", [
    ("decoding.benchmark", "decoding.bench.options", "--tune"),
    ("decoding.benchmark", "tiktoken", "--tune"),
    ("decoding.benchmark", "torch", "--tune"),
    ("decoding.animation", "torch", "--out OUT/run.svg"),
    ("decoding.bench.transformers", "torch", ""),
    ("decoding.bench.batches", "tiktoken", ""),
    ("decoding.bench.batches", "torch", ""),
    ("decoding.bench.parallel", "torch", ""),
    ("decoding.bench.round", "torch", ""),
    ("decoding.bench.counting", "torch", "OUT/new"),
    ("weights.train", "tiktoken", "README.md --out OUT/new"),
    ("weights.check", "weights.registry", "tales-small"),
    ("weights.check", "torch", "tales-small"),
])
def test_ctrl_c_while_a_program_starts(tmp_path, program, imported, arguments):
    words = shlex.split(arguments.replace("OUT", str(tmp_path)))
    done = run_script(INTERRUPTED, program, imported, *words)
    assert (done.returncode, done.stderr.decode()) == (130, f"python -m {program}: interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_that_cannot_be_written_is_said(program):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", program, "--help"], cwd=ROOT, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=180, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device" in done.stderr


LITTLE_ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))
module = __import__(sys.argv[1], fromlist=["main"])
sys.exit(module.main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="there is no limit on the size of files")
@pytest.mark.parametrize("program, arguments, files", [
    ("decoding.bench.counting", ". --size tiny", ["config.json", "model.safetensors"]),
    ("decoding.animation", "--out run.svg", ["run.svg"]),
])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, program, arguments, files):
    for name in files:
        (tmp_path / name).write_text("old")
    done = subprocess.run([sys.executable, "-c", LITTLE_ROOM, program, *arguments.split()],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "reading or writing failed: " in done.stderr
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == dict.fromkeys(files, "old")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
def test_a_picture_into_a_pipe():
    done = subprocess.run([sys.executable, "-m", "decoding.animation", "--out", "/dev/stdout"],
                          cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 and done.stdout.startswith("<svg"), done.stderr
