"""What the other processes do: load their share when they are told to, then follow each pass."""
import os
from collections.abc import Callable

import torch

from weights.errors import ProcessLost
from weights.processes.graphs import GraphFollower
from weights.processes.group import LOST, Group
from weights.processes.load import attempt, check_device, load_share


@torch.no_grad()
def follow(group: Group) -> None:
    """Do what process 0 announces, until it says that this is the end.

    Where that fails, end this process, and leave the reason to process 0, which has the screen.
    """
    worker = Worker(group)
    try:
        while (messages := group.hear()) is not None:
            for what, *numbers in messages:
                getattr(worker, what)(*numbers)
    except ProcessLost:
        os._exit(LOST)
    except Exception as error:
        group.leave_words(f"{type(error).__name__}: {error}")
        os._exit(1)
    group.ended = True
    group.leave()


class Worker(GraphFollower):
    """A follower that can load what it is to follow."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group

    def check_device(self, device: str) -> None:
        attempt(self.group, lambda: check_device(self.group, device))

    def load(self, *wanted) -> None:
        share = load_share(self.group, *wanted)
        if share is not None:
            self.use(share)

    def call(self, function: Callable[..., object], *numbers) -> None:
        """Call a function of the project's, as process 0 does: benchmarks measure with it."""
        function(self.group, self.share, *numbers)
