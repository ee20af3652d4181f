"""Which core each of OpenMP's threads runs on: programs call `bind_threads` before torch loads.

Two threads that share a core wait for each other, and every matrix product takes 8 ms. Bound to a
core each, they cannot meet.
"""
import os
import sys

bound = False  # whether bind_threads has bound them


def bind_threads() -> None:
    """Import torch with OpenMP's threads bound to a core each, where that can do no harm.

    OpenMP hands out cores from the first one on. With fewer threads than cores all programs of a
    machine would share the first few, so then nothing is bound. Nor is it where the user has said
    otherwise, where the system does not tell which cores there are (macOS, Windows), or once torch
    is there. The main thread is set free again: programs it starts would inherit its one core.
    """
    global bound
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    threads = os.environ.get("OMP_NUM_THREADS", str(len(cores)))
    said_otherwise = any(name in os.environ for name in (
        "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"))
    too_late = "torch" in sys.modules
    if said_otherwise or too_late or len(cores) < 2 or threads != str(len(cores)):
        return
    os.environ["OMP_PROC_BIND"] = "true"  # OpenMP reads it when it is loaded, with torch
    try:
        import torch  # noqa: F401
    finally:
        del os.environ["OMP_PROC_BIND"]
        os.sched_setaffinity(0, cores)
    bound = True


def describe_threads(n: int) -> str:
    """Return how many threads there are, and whether each keeps to a core of its own."""
    return f"{n} thread{'s' * (n != 1)}" + (", a core each" if bound else "")
