"""`--processes`: what the program prints, and how it ends, whatever happens to which process."""
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.commands import PROGRAM, ROOT, ask, environment, one_line, run_script

LINE = "python -m decoding.generate: "
pytestmark = pytest.mark.slow
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")


@pytest.fixture
def long_run(tmp_path):
    """The options of a run of many passes, which prints a line now and then."""
    lines = tmp_path / "prompts.jsonl"
    lines.write_text('{"prompt": "abc"}\n' * 3000)
    return ["--processes", "2", "--prompts-file", str(lines), "--at-once", "2", "--ignore-eos"]


@pytest.fixture
def start(pair):
    """Start the program in a process group of its own; what is left of it goes in the end."""
    started = []

    def start(*options, command=PROGRAM):
        process = subprocess.Popen([*command, *pair, *options], cwd=ROOT, env=environment(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def others(process):
    """The processes that it has started."""
    shown = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True,
                           text=True, check=True).stdout
    return [int(line.split()[0]) for line in shown.splitlines()
            if line.split()[1:2] == [str(process.pid)] and "spawn_main" in line]


def is_there(pid):
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True,
                           check=False).stdout
    return shown.strip()[:1] not in ("", "Z")


def last_words(process, code, left):
    """The lines it printed on stderr, once it is seen to have ended alone and with this code."""
    _, said = process.communicate(timeout=120)
    assert process.returncode == code, said
    end = time.monotonic() + 20
    while any(map(is_there, left)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left and not any(map(is_there, left))
    return [line for line in said.splitlines() if not line.startswith("target ")]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_same_text_and_the_traffic(pair, capsys, processes):
    """Two sums per layer and pass: of a layer, 16 numbers of 4 bytes for each token."""
    arguments = [*pair, "abc", "--max-new-tokens", 30, "--json", "--ignore-eos"]
    whole, split = (json.loads(ask(capsys, *arguments, *more).out)
                    for more in ([], ["--processes", processes]))
    assert split["settings"]["processes"] == processes and whole["settings"]["processes"] is None
    for title in ("baseline", "speculative"):
        assert split[title]["tokens"] == whole[title]["tokens"]
        assert "traffic" not in whole[title]
        traffic, rounds = split[title]["traffic"], split[title]["stats"]["rounds"]
        assert traffic["passes"] == rounds + 1  # the prefill
        assert traffic["sums"] == 2 * traffic["passes"]  # one layer
        fed = 2 + rounds + split[title]["stats"]["drafted"]  # after full acceptance one is fed late
        assert traffic["sum_bytes"] == 2 * 16 * 4 * fed
        assert traffic["announcements"] == traffic["passes"] + 1  # a cache
        assert traffic["per_round"]["sums"] == traffic["sums"] / rounds
        assert traffic["per_pass"]["sums"] == 2
    assert split["identical"] is True


def test_bad_input_is_one_line(pair, capsys):
    assert "shared out evenly among 3 processes; take one of 1, 2" in one_line(
        ask(capsys, *pair, "--processes", 3))
    assert "whole number of at least 1" in one_line(ask(capsys, *pair, "--processes", 0))


@on_posix
def test_a_process_that_is_killed_in_a_pass(start, long_run):
    process = start(*long_run)
    process.stdout.readline()
    left = others(process)
    os.kill(left[0], signal.SIGKILL)
    assert last_words(process, 1, left) == [LINE + "process 1 of 2 has ended: signal 9"]


@on_posix
def test_a_process_that_is_killed_between_passes(start):
    process = start("--processes", "2", "--step", "abc")
    shown = ""
    while not shown.endswith("[Enter"):
        shown += process.stderr.read(1)
    left = others(process)
    os.kill(left[0], signal.SIGKILL)
    assert last_words(process, 1, left)[-1].endswith(
        LINE + "process 1 of 2 has ended: signal 9")


@on_posix
def test_ctrl_c(start, long_run):
    process = start(*long_run)
    process.stdout.readline()
    left = others(process)
    os.killpg(process.pid, signal.SIGINT)
    (line,) = last_words(process, 130, left)
    assert line.startswith(LINE + "interrupted; ")


@on_posix
def test_nobody_outlives_the_first_process(start, long_run):
    process = start(*long_run)
    process.stdout.readline()
    left = others(process)
    os.kill(process.pid, signal.SIGKILL)
    assert last_words(process, -signal.SIGKILL, left) == []


@on_posix
def test_a_process_that_hangs_is_noticed(start, long_run):
    script = ("import sys; from weights.processes import watch; watch.LIMIT = 1; "
              "from decoding.generate import main; sys.exit(main())")
    process = start(*long_run, command=[sys.executable, "-c", script])
    process.stdout.readline()
    left = others(process)
    os.kill(left[0], signal.SIGSTOP)
    assert last_words(process, 1, left) == [
        LINE + "another process has not answered for 1 seconds"]


@on_posix
@pytest.mark.parametrize("how, said", [
    (signal.SIGKILL, "has ended: signal 9"), (signal.SIGSTOP, "has not answered for 1 seconds")])
def test_a_process_that_dies_or_hangs_before_it_has_loaded(start, long_run, how, said):
    script = ("import sys; from weights.processes import watch; watch.SILENCE = 1; "
              "from decoding.generate import main; sys.exit(main())")
    process = start(*long_run, command=[sys.executable, "-c", script])
    while not (left := others(process)):
        time.sleep(0.01)
    os.kill(left[0], how)
    assert last_words(process, 1, left) == [LINE + f"process 1 of 2 {said}"]


def test_torchrun(pair, capsys):
    """Process 0 prints what it prints alone; torchrun's own lines are its own."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "decoding.generate"]
    plain = ask(capsys, *pair, "abc")
    for more, out, said in (([], plain.out, "2 processes of 1 thread"),
                            (["--gamma", "-1"], "", LINE + "argument --gamma")):
        done = subprocess.run([sys.executable, *launch, *pair, "abc", *more], cwd=ROOT, text=True,
                              env=environment(), capture_output=True, timeout=180, check=False)
        assert (done.returncode, done.stdout) == (int(more != []), out), done.stderr
        assert done.stderr.count(said) == 1


def test_help_loads_no_torch():
    done = run_script("import sys\nfrom decoding.generate import main\ntry: main(['--help'])\n"
                      "except SystemExit: sys.exit('torch' in sys.modules)")
    assert done.returncode == 0
