"""The other processes of a model that is shared out: started with the first, never outliving it.

Imports no torch before it is needed.
"""
from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from weights.errors import ProcessLost

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from torch.distributed import Store

    from weights.processes.group import Group

HOST = "127.0.0.1"
LIBUV = sys.platform != "win32"  # PyTorch for Windows comes without it
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # the network of a machine with itself


def launched() -> int:
    """Return how many processes torchrun has started; 0 where it has not."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 0


def is_follower() -> bool:
    """Return whether torchrun has started this process, and not as the first."""
    return launched() > 0 and int(os.environ["RANK"]) > 0


def share_cores(processes: int) -> None:
    """Give each process its part of this machine's cores, unless the user has said otherwise."""
    processes = int(os.environ["LOCAL_WORLD_SIZE"]) if launched() else processes
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // processes)))


@contextmanager
def together(processes: int | None, program: str) -> Iterator[Group | None]:
    """A block in which this process decodes, and others follow. None of them: yields None.

    Starts them, unless torchrun has. However the block ends, they end with it. Raises ProcessLost,
    with one line that says which and why, when one of them has ended before.

    program: as it is called on the command line.
    """
    if not launched() and processes is None:
        yield None
        return
    from weights.processes.watch import Watch

    children: list[SpawnProcess] = []
    group = None
    try:
        with Watch(children, program).watching() as watch:
            watch.group = group = (join_launched() if launched() else
                                   start(processes or 1, children, watch.pulses))
            yield group
            group.end()
        for child in children:
            child.join(timeout=5)
    finally:
        for child in children:
            child.kill()
        if group is not None:
            group.leave()


def start(processes: int, children: list[SpawnProcess], pulses: list[Connection]) -> Group:
    """Start the others, as children of this process, and return the group of all.

    children, pulses: are added to, for `Watch`.
    """
    from torch.distributed import TCPStore

    from weights.processes.group import Group

    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    store = TCPStore(HOST, 0, processes, is_master=True, wait_for_workers=False, use_libuv=LIBUV)
    spawn = multiprocessing.get_context("spawn")
    # What is ignored here, they ignore from their first moment on. Ctrl-C reaches every process of
    # a terminal; the first one decides.
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for rank in range(1, processes):
            pulse, theirs = spawn.Pipe(duplex=False)
            children.append(spawn.Process(target=work, args=(rank, processes, store.port, theirs),
                                          daemon=True))
            children[-1].start()
            theirs.close()
            pulses.append(pulse)
    finally:
        signal.signal(signal.SIGINT, usual)
    for rank in range(1, processes):
        while not store.check([present(rank)]):
            time.sleep(0.01)  # unlike the wait that comes next, this one can be interrupted
            if any(child.exitcode is not None for child in children):
                raise ProcessLost()
    return Group(store, rank=0, size=processes, local=0)


def work(rank: int, size: int, port: int, pulse: Connection) -> None:
    """Be one of the others."""
    be_silent()
    threading.Thread(target=beat, args=(pulse,), daemon=True).start()
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    from torch.distributed import TCPStore

    store = TCPStore(HOST, port, size, use_libuv=LIBUV)
    store.set(present(rank), "")
    follow(store, rank, size, rank)


def present(rank: int) -> str:
    """Return the key under which one of the others says that it is there."""
    return f"process {rank} is there"


def beat(pulse: Connection) -> None:
    """Give a sign of life every second."""
    with suppress(OSError):  # the first process has ended
        while True:
            pulse.send_bytes(b"1")
            time.sleep(1)


def end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """End this process as soon as the first one has ended, whatever it waits for."""
    parent.join()
    os._exit(1)


def join_launched() -> Group:
    """Return the group of all processes that torchrun has started."""
    from weights.processes.group import Group

    return Group(*rendezvous(), int(os.environ["LOCAL_RANK"]))


def follow_launched() -> int:
    """Be one of the others that torchrun has started. Return the exit code."""
    be_silent()
    share_cores(launched())
    follow(*rendezvous(), int(os.environ["LOCAL_RANK"]))
    return 0


def rendezvous() -> tuple[Store, int, int]:
    """Return torchrun's store, this process's number, and how many there are."""
    import torch.distributed

    return next(iter(torch.distributed.rendezvous("env://")))


def be_silent() -> None:
    """Leave the screen and the keyboard to process 0."""
    from weights.terminal import print_no_more

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print_no_more()


def follow(store: Store, rank: int, size: int, local: int) -> None:
    """Do what process 0 announces, until it says that this is the end."""
    from weights.processes.follow import follow
    from weights.processes.group import Group

    follow(Group(store, rank, size, local))
