"""Is every other process still there, and does it answer? Process 0 looks after them."""
from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from weights.errors import ProcessLost
from weights.processes.group import LOST, Group
from weights.terminal import tell

LIMIT = 60  # seconds that process 0 waits for the others, in a sum, before it gives up
SILENCE = 60  # seconds without a sign of life of a process that it has started: also while it loads
GRACE = 2  # seconds for the main thread to notice by itself that a process has ended


class Watch:
    """A thread of process 0 that ends the program when another process is gone or hangs.

    Mostly the main thread comes first: gloo raises an error in its next sum. The thread is for when
    it does not: between passes, and under NCCL, where a sum waits forever. Whoever comes first
    speaks; the other is silent.

    children: the processes that this one has started; none under torchrun.
    pulses: a pipe from each of them, into which it writes every second.
    program: as it is called on the command line.
    group: all of them, as soon as they are together.
    """

    def __init__(self, children: list[SpawnProcess], program: str) -> None:
        self.children, self.program = children, program
        self.pulses: list[Connection] = []
        self.group: Group | None = None
        self.over = threading.Event()
        self.speaks = threading.Lock()  # never given back

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """A block in which the others are needed. Raises ProcessLost with the reason, in a line."""
        thread = threading.Thread(target=self.watch, daemon=True)
        thread.start()
        try:
            yield self
        except ProcessLost as error:
            self.speaks.acquire()
            if sys.stderr.isatty():
                print(file=sys.stderr)  # the text stands on the line
            raise ProcessLost(self.reason()) from error
        finally:
            self.over.set()
            thread.join()

    def watch(self) -> None:
        """Look once a second, and count the seconds that one sum has taken.

        Seconds of this thread: a program that was stopped by Ctrl-Z has not waited meanwhile.
        """
        seconds, calls, silent = 0, 0, Counter[int]()
        while not self.over.wait(1):
            if any(child.exitcode is not None for child in self.children):
                if not self.over.wait(GRACE):
                    self.end(self.reason())
                return
            for rank, pulse in enumerate(self.pulses, start=1):
                silent[rank] = 0 if is_alive(pulse) else silent[rank] + 1
                if silent[rank] > SILENCE:
                    self.end(f"process {rank} of {len(self.children) + 1} has not answered for "
                             f"{SILENCE} seconds")
            if self.group is None:
                continue
            same = self.group.is_waiting() and self.group.calls == calls
            seconds, calls = seconds + 1 if same else 0, self.group.calls
            if seconds > LIMIT:
                self.end(f"another process has not answered for {LIMIT} seconds")

    def end(self, line: str) -> None:
        """End the program with this line."""
        if not self.speaks.acquire(blocking=False):
            return
        with suppress(OSError):
            sys.stdout.flush()
        if sys.stderr.isatty():
            print(file=sys.stderr)
        tell(f"{self.program}: {line}")
        for child in self.children:
            child.kill()
        os._exit(1)

    def reason(self) -> str:
        """Say which process has ended, and how. One that was lost after another is not the one."""
        end = time.monotonic() + GRACE
        while time.monotonic() < end:
            size = len(self.children) + 1 if self.group is None else self.group.size
            for rank in range(1, size):
                words = self.group.last_words(rank) if self.group is not None else ""
                words = words or (how(self.children[rank - 1]) if self.children else "")
                if words:
                    return f"process {rank} of {size} has ended: {words}"
            time.sleep(0.05)
        return "another process has ended"


def is_alive(pulse: Connection) -> bool:
    """Return whether a process has written into its pipe since the last look."""
    written = False
    with suppress(EOFError, OSError):  # it has ended; how, its exit code says
        while pulse.poll():
            pulse.recv_bytes()
            written = True
    return written


def how(child: SpawnProcess) -> str:
    """Say how a process has ended by itself; "" if it has not."""
    code = child.exitcode
    if code in (None, LOST):
        return ""
    return f"code {code}" if code >= 0 else f"signal {-code}"
