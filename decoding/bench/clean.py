"""Clean samples: timings during which no thread of the programs timed had to wait for a core.

On a busy machine most of a program's time may be other programs'. Linux counts, for every thread,
how long it was ready to run but had no core (the second number of /proc/PID/task/*/schedstat).
Where that is next to nothing, a timing is as good as on a quiet machine; only the traffic of others
to memory stays unseen. Imports no torch.
"""
import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
MOST = 0.03  # of a sample's time that its threads may have waited, all together


def can_tell(proc: Path = PROC) -> bool:
    """Return whether this system says how long threads wait for a core; Linux does."""
    return bool(list((proc / str(os.getpid()) / "task").glob("*/schedstat")))


def waited(pids: Iterable[int], proc: Path = PROC) -> float:
    """Return the seconds that the threads of these processes have waited for a core so far.

    0 where the system does not tell: every sample is then clean.
    """
    nanoseconds = 0
    for pid in pids:
        for path in (proc / str(pid) / "task").glob("*/schedstat"):
            try:
                nanoseconds += int(path.read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
                continue
    return nanoseconds / 1e9


def is_clean(seconds: float, waited: float) -> bool:
    """Return whether a sample that took so long, and waited for so much of it, counts."""
    return waited <= MOST * seconds
