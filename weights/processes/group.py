"""What processes say to each other, by torch.distributed: sums, announcements, and last words.

Sums go over NCCL between GPUs and over gloo between CPUs. Announcements always go over gloo: they
are numbers of the host, and gloo raises an error where another process is gone. NCCL would wait.
"""
import pickle
import signal
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from weights.errors import ProcessLost

LOST = 3  # exit code of a process that has lost another one
FOREVER = timedelta(days=100)  # for torch.distributed; how long is too long, Watch decides
FIRST = 1024  # bytes of a message that are always sent; all of it, but for a long prompt or a tree


@dataclass
class Traffic:
    """How often this process has taken part in what, and the bytes of it."""

    passes: int = 0
    sums: int = 0
    sum_bytes: int = 0  # of one process's numbers; how many bytes travel, the library decides
    announcements: int = 0
    announced_bytes: int = 0

    def since(self, earlier: "Traffic") -> "Traffic":
        return Traffic(*(now - then for now, then in zip(asdict(self).values(),
                                                         asdict(earlier).values())))


class Group:
    """All processes, as this one sees them: a `World` of model/parallel.py.

    store: torch.distributed's, which all of them share.
    local: this process's number among those of its machine.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, local: int) -> None:
        self.store, self.rank, self.size, self.local = store, rank, size, local
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=FOREVER)
        self.sums: dist.ProcessGroup | None = None  # None: the same as for announcements
        self.on_gpus = False
        self.passed: torch.cuda.Event | None = None  # the end of the last pass, on a GPU
        self.traffic = Traffic()
        self.later: list[tuple] = []  # announcements that wait for the next one
        self.ended = False
        self.gathered = 0  # calls of `gather`
        self.calls = 0  # of others, that are begun
        self.waiting = False  # for other processes, in the last of them
        self.held = False  # Ctrl-C, until a pass is done

    def use(self, device: str) -> None:
        """Sum up on this device from now on. Every process has to call it."""
        self.on_gpus = device == "cuda"
        if self.on_gpus and self.sums is None:
            torch.cuda.set_device(self.local)
            self.sums = cast(dist.ProcessGroup, dist.new_group(backend="nccl", timeout=FOREVER))

    def add(self, y: Tensor) -> Tensor:
        """Return the sum of every process's y, which may be overwritten."""
        # In PyTorch 2.6 gloo cannot add up bfloat16.
        wide = self.sums is None and y.dtype == torch.bfloat16
        summed = y.float() if wide else y
        with self.others():
            dist.all_reduce(summed, group=self.sums)  # in a CUDA graph this is recorded, too
        self.count(1, summed.nbytes)
        return summed.to(y.dtype)

    def count(self, sums: int, nbytes: int) -> None:
        self.traffic.sums += sums
        self.traffic.sum_bytes += nbytes

    def announce(self, what: str, *numbers: Any) -> None:
        """Tell the others what to do next: process 0 only."""
        self.send([*self.later, (what, *numbers)])
        self.later = []

    def announce_later(self, what: str, *numbers: Any) -> None:
        """Do so together with the next announcement. Sends nothing, so it may be called anytime."""
        self.later.append((what, *numbers))

    def send(self, message: Any) -> None:
        data = pickle.dumps(message)
        size = len(data)
        if self.size > 1:
            sent = torch.frombuffer(bytearray(size.to_bytes(8, "little") + data
                                              + bytes(max(0, FIRST - 8 - size))), dtype=torch.uint8)
            with self.undisturbed(), self.others():
                for part in (sent[:FIRST], sent[FIRST:]):
                    if len(part):
                        dist.broadcast(part, 0)
        self.traffic.announcements += 1
        self.traffic.announced_bytes += max(FIRST, 8 + size)

    def hear(self) -> Any:
        """Wait for process 0, however long, and return its message."""
        first = torch.empty(FIRST, dtype=torch.uint8)
        with self.others():
            dist.broadcast(first, 0)
            size = int.from_bytes(bytes(first[:8].tolist()), "little")
            rest = torch.empty(max(0, 8 + size - FIRST), dtype=torch.uint8)
            if len(rest):
                dist.broadcast(rest, 0)
        return pickle.loads(torch.cat([first, rest])[8:8 + size].numpy().tobytes())

    def gather(self, mine: Any) -> list:
        """Return what each process gives here, to process 0; to others nothing.

        By the store, where waiting can be interrupted: one may take minutes longer than another.
        """
        self.gathered += 1
        if self.rank > 0:
            data = b64encode(pickle.dumps(mine)).decode()  # a store keeps text
            self.store.set(f"{self.gathered} of {self.rank}", data)
            return []
        everyone = [mine]
        for rank in range(1, self.size):
            key = f"{self.gathered} of {rank}"
            while not self.store.check([key]):
                time.sleep(0.02)
            everyone.append(pickle.loads(b64decode(self.store.get(key))))
        return everyone

    def leave_words(self, words: str) -> None:
        """Leave the reason why this process ends, for process 0 to say."""
        self.store.set(f"last words of {self.rank}", words)

    def last_words(self, rank: int) -> str:
        """Return the reason that a process has left; "" if there is none."""
        key = f"last words of {rank}"
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def is_waiting(self) -> bool:
        """Return whether others are waited for: by this process, or by its GPU."""
        return self.waiting or (self.passed is not None and not self.passed.query())

    def end(self) -> None:
        """Tell the others that this was all."""
        self.send(None)
        self.ended = True

    def leave(self) -> None:
        """Close the connections. Those of NCCL only in the end: without the others it may wait."""
        if self.ended or self.sums is None:
            dist.destroy_process_group()

    @contextmanager
    def others(self) -> Iterator[None]:
        """A block that waits for other processes. Raises ProcessLost if one of them is gone."""
        self.calls += 1
        self.waiting = True
        try:
            yield
        except RuntimeError as error:
            raise ProcessLost(str(error)) from error
        finally:
            self.waiting = False

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """A pass of the model, on process 0."""
        self.traffic.passes += 1
        with self.undisturbed():
            yield
        if self.on_gpus:
            self.passed = torch.cuda.Event()
            self.passed.record()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """A block that Ctrl-C waits for: a pass cut in two leaves others in the middle of a sum."""
        if self.held or threading.current_thread() is not threading.main_thread():
            yield  # it waits already, or comes to another thread
            return
        pressed: list[int] = []
        self.held = True
        usual = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)
            self.held = False
        if pressed:
            raise KeyboardInterrupt
