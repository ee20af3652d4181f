"""The program as a process: poor consoles, closed pipes, full disks, Ctrl-C, bound threads."""
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decoding.cli.console import Console
from decoding.cli.options import parse
from decoding.cli.streaming import LEGEND
from decoding.cli.styles import STYLES
from tests.commands import PROGRAM, ROOT, environment, run_script

# answers at once, and through the same doors as everything else
LIST = shlex.join([*PROGRAM, "--list-models"])
CTRL_C = b"\x03"
ASKED = "[Enter: draft; Ctrl-C: stop] "  # before each round of --step

pytestmark = pytest.mark.slow  # whole programs


@pytest.mark.parametrize("encoding, shown", [("ascii", b"?? ?"), ("cp1252", b"?? \xe9")])
def test_a_console_without_the_characters_shows_others(encoding, shown):
    # As bytes, in case this interpreter could not say it; the other one shall read it as UTF-8.
    result = subprocess.run([*PROGRAM, "--target", "日本 é".encode()], cwd=ROOT,
                            capture_output=True, timeout=180, check=False,
                            env=environment(PYTHONIOENCODING=encoding, PYTHONUTF8="1"))
    assert result.returncode == 2
    assert b"unknown model '" + shown + b"'" in result.stderr and result.stderr.count(b"\n") == 1


def test_the_bundled_pair_on_an_ascii_console(tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("日本 – once upon a time", encoding="utf-8")
    command = [*PROGRAM, "--prompt-file", str(prompt), "--max-new-tokens", "20", "--trace",
               "--temperature", "0"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=180, check=False,
                            env=environment(PYTHONIOENCODING="ascii"))
    assert result.returncode == 0
    assert len(result.stdout.decode("ascii")) > 40
    assert "\n?? ? once upon a time\nround 1: " in result.stderr.decode("ascii")
    assert "ids identical: yes" in result.stderr.decode("ascii")


@pytest.mark.parametrize("redirection, code, complaint", [
    ("| true", 0, b""),
    (">&-", 0, b""),
    ("2>&-", 0, b""),
    ("<&-", 0, b""),
    ("<&- >&- 2>&-", 0, b""),
    pytest.param(">/dev/full", 1, b"No space left on device", marks=pytest.mark.skipif(
        not Path("/dev/full").exists(), reason="there is no /dev/full")),
])
def test_streams_that_lead_nowhere(tmp_path, redirection, code, complaint):
    line = f"({{ {LIST}; echo $? >&3; }} {redirection}) 3>{tmp_path}/code"
    result = subprocess.run(["sh", "-c", line], cwd=ROOT, env=environment(), capture_output=True,
                            timeout=180, check=False)
    assert (tmp_path / "code").read_text() == f"{code}\n"
    assert complaint in result.stderr and result.stderr.count(b"\n") == bool(complaint)


@pytest.mark.parametrize("stdin", [b"\n\xff\n", b"\xff"])
def test_enter_counts_whatever_is_typed_before_it(stdin):
    command = [*PROGRAM, "--step", "--max-new-tokens", "9", "--mode", "speculative"]
    result = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, timeout=180,
                            check=False, env=environment(PYTHONIOENCODING="utf-8:strict"))
    assert result.returncode == 0 and b"tokens/s" in result.stderr, result.stderr


def test_a_reader_who_has_had_enough():
    command = [*PROGRAM, "--max-new-tokens", "300", "--ignore-eos", "--mode", "speculative",
               "--temperature", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout.read(5) == b" ther"
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=180)
    assert process.returncode == 0
    assert b"Error" not in err and b"tokens/s" not in err


IMPORTS = """
import os, signal, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            %s

sys.meta_path.insert(0, Watch())
from decoding.generate import main
sys.exit(main(["--mode", "speculative"]))
"""


def test_ctrl_c_while_torch_is_imported():
    result = run_script(IMPORTS % "os.kill(os.getpid(), signal.SIGINT)")
    assert result.returncode == 130
    assert result.stderr == b"python -m decoding.generate: interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_and_ctrl_c():
    loading = "loading tales-large and tales-small ..."
    screen, code = on_a_terminal(["--step", "--max-new-tokens", "20", "--temperature", "0"],
                                 [(loading, b"\n\n\n"),  # too early: nothing was asked
                                  (ASKED, b"\n"), ("target's answer] ", b"\n"),
                                  ("[Enter: verdict] ", b"\n"), (ASKED, CTRL_C)])
    assert screen.index(loading) < screen.index("target tales-large, draft tales-small, gamma 4")
    assert "\n" + LEGEND + f"\nOnce upon a time\n{ASKED}\nround 1: " in screen
    assert screen.count("[Enter") == 4
    assert "\n " + STYLES["correction"] + "there" in screen
    assert screen.endswith(f"\n{ASKED}\npython -m decoding.generate: interrupted\n")
    assert code == 130


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_an_enter_counts_for_nothing_before_it_is_asked_for(monkeypatch):
    import pty

    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as keyboard:
        monkeypatch.setattr(sys, "stdin", keyboard)
        os.write(ours, b"early\n")
        assert select.select([keyboard], [], [], 60)[0]  # it has arrived
        console = Console(parse(["--step"]))
        # The user answers what is asked.
        monkeypatch.setattr(console, "say", lambda *_, **__: os.write(ours, b"in time\n"))
        console.wait("draft")
        assert not select.select([keyboard], [], [], 0)[0]  # the answer was read, not the early one
    os.close(ours)


def on_a_terminal(arguments, script):
    """What a terminal shows of the program, and its exit code.

    script: what the user waits for, and the key pressed then.
    """
    import pty  # not on every system

    ours, theirs = pty.openpty()
    shown, seen, end = "", 0, time.monotonic() + 180
    with subprocess.Popen([*PROGRAM, *arguments], cwd=ROOT,
                          env=environment(TERM="xterm", NO_COLOR=""),
                          stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                try:
                    shown += os.read(ours, 4096).decode()
                except OSError:  # the program has ended
                    break
            while script and script[0][0] in shown[seen:]:
                wanted, key = script.pop(0)
                seen = shown.index(wanted, seen) + len(wanted)
                if key == CTRL_C:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(ours, key)
        else:
            process.kill()
    os.close(ours)
    return shown.replace("\r\n", "\n"), process.returncode
