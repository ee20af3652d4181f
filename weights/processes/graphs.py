"""Passes of a model that is shared out, recorded as CUDA graphs on every process, sums included."""
import torch
from torch import Tensor

from model.decoder import check_block
from model.fast.cuda_graphs import Graphed
from model.kv_cache import KVCache
from model.leader import Follower, Leader
from model.parallel import Summed
from weights.processes.group import Group


class LedGraphs:
    """What `Graphed` is, on every process at once: process 0 announces what is to be replayed.

    A sum is recorded with the products around it. NCCL works in a stream of its own, which waits
    for that of the products and is waited for, in the recording as in a plain pass.
    """

    def __init__(self, leader: Leader, group: Group, tokens_per_pass: tuple[int, ...],
                 n_ctx: int | None = None) -> None:
        self.group = group
        # Warming up has sums in it: all do it together.
        group.announce("record", tokens_per_pass, n_ctx)
        self.graphs = Graphed(leader.share, tokens_per_pass, n_ctx)
        self.config = self.graphs.config
        width = self.config.n_embd * leader.dtype.itemsize
        self.sums = sum(isinstance(layer, Summed) for layer in leader.share.modules())
        self.bytes_per_token = self.sums * width

    def new_cache(self, capacity: int) -> KVCache:
        self.group.announce("empty")
        return self.graphs.new_cache(capacity)

    def forward(self, tokens: Tensor, cache: KVCache | None = None,
                last: int | None = None) -> Tensor:
        """Return what `Graphed.forward` returns. What does not fit is refused before it is told."""
        T = tokens.shape[1]
        last = T if last is None else last
        check_block(self.config, 0 if cache is None else cache.length, T, last)
        self.graphs.check_cache(cache)
        before = self.group.traffic.sums
        with self.group.one_pass():
            self.group.announce("replay", tokens.tolist(), None if cache is None else cache.length)
            logits = self.graphs.forward(tokens, cache, last)
        if self.group.traffic.sums == before:  # a recording took part in the sums, not this code
            size = next(n for n in self.graphs.blocks if n >= T)
            self.group.count(self.sums, size * self.bytes_per_token)
        return logits


class GraphFollower(Follower):
    """The other processes' half of it."""

    def record(self, tokens_per_pass: tuple[int, ...], n_ctx: int | None) -> None:
        self.graphs = Graphed(self.share, tokens_per_pass, n_ctx)

    def empty(self) -> None:
        self.graphs.new_cache(0)

    def replay(self, ids: list[list[int]], length: int | None) -> None:
        cache = None
        if length is not None:
            cache = self.graphs.cache
            cache.length = length
        self.graphs.forward(torch.tensor(ids), cache, 0)
