"""Generated code, run where it can do no harm; `cage.py` is the process that does it.

With Linux's namespaces a program has no network, no home, no process but itself, and no file but
Python's and those it writes, which are gone with it. Where they are not to be had there are limits
only: on time, memory, processes and output. `Sandbox.say` tells which it is. It is made for what a
language model writes by accident; a program that sets out to be counted as right can be.
"""
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEMORY, OUTPUT, DISK = 5.0, 2**30, 2**20, 2**24
CAGE = Path(__file__).with_name("cage.py")
SYSTEM = ["/usr", "/lib", "/lib64", "/bin"]  # where programs look for libraries


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    passed: bool
    reason: str  # "passed", "timed out", or the last line it wrote


class Sandbox:
    """Runs programs, with as much protection as there is here.

    seconds: the longest a program may run.
    Raises ValueError where there is too little to run anything.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        if sys.platform == "win32":
            raise ValueError("--run-generated-code needs the limits of Linux or macOS, "
                             "which Windows does not have")
        self.seconds = seconds
        self.missing = ("this is not Linux" if sys.platform != "linux" else
                        self.start("", namespaces=True).get("unavailable"))
        if self.missing is not None and not self.run("").passed:
            raise ValueError(f"generated code cannot be run safely here: no namespaces "
                             f"({self.missing}), and as this user not even limits hold; "
                             "run as another user")

    def say(self) -> str:
        """Return one line: what protects this machine, and what does not."""
        limits = (f"at most {self.seconds:g} s, {MEMORY >> 20} MiB of memory, "
                  f"{OUTPUT >> 20} MiB a file or of output, no second process")
        if self.missing is None:
            return ("generated code runs in namespaces of its own: no network, no home, nothing "
                    f"but Python to read; {limits}")
        return (f"generated code runs with limits only: {limits}. NOT available here are "
                f"namespaces ({self.missing}): it can use the network, read what you can read, "
                "and write and send signals as its user may")

    def run(self, program: str) -> Outcome:
        """Run a program to its end."""
        ended = self.start(program, namespaces=self.missing is None)
        if ended.get("finished"):
            return Outcome(True, "passed")
        return Outcome(False, "timed out" if ended.get("timed_out") else ended["last"])

    def start(self, program: str, namespaces: bool) -> dict:
        """Run a program. Return what the cage says of it, and the last line it wrote."""
        python = os.path.realpath(sys.executable)
        prefix = os.path.realpath(sys.base_prefix)
        readable = [path for path in SYSTEM if os.path.exists(path)]
        readable += [] if prefix.startswith("/usr") else [prefix]
        with (tempfile.TemporaryDirectory(prefix="generated-") as folder,
              tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output):
            os.chmod(folder, 0o777)  # the program's user is another
            source.write(program.encode("utf-8", "replace"))
            source.seek(0)
            settings = {"namespaces": namespaces, "root": folder, "readable": readable,
                        "python": python, "seconds": self.seconds, "memory": MEMORY,
                        "output": OUTPUT, "disk": DISK}
            try:
                answer = subprocess.run(
                    [python, "-I", "-S", "-B", str(CAGE), json.dumps(settings)], cwd=folder,
                    env={}, stdin=source, stdout=subprocess.PIPE, stderr=output, check=False,
                    start_new_session=True, timeout=self.seconds + 30)
            except subprocess.TimeoutExpired:  # the cage itself was stopped, or is stuck
                return {"last": "", "timed_out": True}
            output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
            lines = output.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "ended early")
        return {"last": last[:200]} | json.loads(answer.stdout or b"{}")
