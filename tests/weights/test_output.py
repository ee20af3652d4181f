"""What programs write: one run at a time in a folder, files whole, nothing left of a refusal."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weights.output import check_writable, claim, replacing, write_text

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from weights.output import claim
with claim(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.readline()
"""


def holder(folder):
    """Another process that has claimed the folder, until it reads a line."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "mine\n"
    return process


def test_a_folder_is_one_runs_at_a_time(tmp_path):
    with holder(tmp_path / "r") as other:
        words = "another run is writing into .*r; wait for its end, or choose another --out"
        with pytest.raises(ValueError, match=words), claim(tmp_path / "r"):
            pytest.fail("two runs at once")
        assert (tmp_path / "r").is_dir()  # it is still the other's
        (tmp_path / "r" / "result").touch()
        other.communicate("\n")
    with claim(tmp_path / "r"):
        pass
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["result"]


def test_a_dead_run_blocks_nobody(tmp_path):
    with holder(tmp_path / "r") as other:
        other.kill()
    with claim(tmp_path / "r"):
        pass


def test_empty_folders_made_for_nothing_are_removed_and_no_others(tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", tmp_path / "mine" / "a" / "b", tmp_path / "c"):
        with pytest.raises(KeyError), claim(folder):
            raise KeyError
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    with claim(tmp_path / "mine" / "a" / "b"):
        (tmp_path / "mine" / "a" / "b" / "file").touch()
    assert (tmp_path / "mine" / "a" / "b" / "file").exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "in", tmp_path / "new" / ("x" * 300)):
        words = r"cannot write into .*; choose another --out"
        with pytest.raises(ValueError, match=words), claim(folder):
            pytest.fail("it was written")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, error):
    (tmp_path / "f").write_text("old")
    with pytest.raises(type(error)), replacing(tmp_path / "f") as file:
        file.write_text("ne")
        raise error
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"f": "old"}
    with replacing(tmp_path / "f") as file:
        file.write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"f": "new"}


def test_files_are_written_side_by_side_and_no_other_is_touched(tmp_path):
    (tmp_path / "f.new").write_text("the user's own")
    with replacing(tmp_path / "f") as one, replacing(tmp_path / "g") as other:
        one.write_text("1")
        other.write_text("2")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "f": "1", "g": "2", "f.new": "the user's own"}


PROGRAMS = {
    "weights.train": ["TEXT", "--target", "2,2,16", "--draft", "1,2,16", "--vocab", "280",
                      "--context", "16", "--steps", "1000000", "--device", "cpu"],
    "decoding.benchmark": ["--lengths", "900", "--repeats", "1000", "--device", "cpu"],
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent there")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_run_is_refused_and_the_first_loses_nothing(program, tmp_path):
    (tmp_path / "text").write_text("Once upon a time there was a king. " * 99)
    arguments = [str(tmp_path / "text") if word == "TEXT" else word for word in PROGRAMS[program]]
    command = [sys.executable, "-m", program, *arguments, "--out", str(tmp_path / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as first:
        first.stderr.readline()  # it has begun
        if program == "decoding.benchmark":
            command.append("--resume")
        second = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True,
                                timeout=120, check=False)
        assert first.poll() is None
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=120)
    assert (second.returncode, second.stdout) == (2, "")
    assert second.stderr == (f"python -m {program}: another run is writing into "
                             f"{tmp_path / 'out'}; wait for its end, or choose another --out\n")
    assert first.returncode == 130 and "interrupted" in said.splitlines()[-1], said
    assert not (tmp_path / "out" / ".lock").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_a_pipe_is_written_into_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check_writable(tmp_path / "pipe")  # without waiting for a reader
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        write_text(tmp_path / "pipe", "é\n")
        assert reader.stdout.read() == "é\n".encode()
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_goes_on_leading_to_its_file(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    for text in ("old", "new"):
        check_writable(tmp_path / "link")
        write_text(tmp_path / "link", text)
        assert (tmp_path / "far" / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
