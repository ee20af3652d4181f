"""Forward passes as CUDA graphs: a GPU is told once what to do, and from then on only "again".

A forward pass is hundreds of small operations. At batch 1 a GPU does most of them in less time than
it takes to hand it the next. A CUDA graph is a recording of all of them that one call replays. It
always works on the same tensors, in the same shapes. Only what they hold may change from pass to
pass: the ids, their positions, and the mask, which says how much of the cache can be seen.
"""
from collections.abc import Callable
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from model.decoder import Decoder, check_block
from model.kv_cache import KVCache


class Graphed:
    """Decodes like `model`, with blocks of few tokens replayed. Longer ones run as they always did.

    tokens_per_pass: the sizes of block that are recorded. A block of another size is filled up to
        the next of them. Trees are not recorded: `--tree` refuses `--compile`.
    n_ctx: the context that is needed, if less than the model's; the cache is as large, and every
        step looks at all of it.

    On a device without CUDA graphs the same fixed shapes run unrecorded, which is good for tests
    only. A graph always uses the same memory. So there is a single cache, with room for the whole
    context and for the filling, and `new_cache` empties it.
    """

    def __init__(self, model: Decoder, tokens_per_pass: tuple[int, ...],
                 n_ctx: int | None = None) -> None:
        self.model, self.config = model, model.config
        if n_ctx is not None:
            self.config = replace(  # every configuration is a dataclass
                self.config, n_ctx=min(n_ctx, self.config.n_ctx))  # type: ignore[type-var]
        capacity = self.config.n_ctx + max(tokens_per_pass)
        capacity = -(-capacity // 8) * 8  # a multiple of 8, which fast attention asks of a mask
        self.cache = model.new_cache(capacity)
        sizes = sorted(set(tokens_per_pass))
        self.blocks = {n: FixedBlock(model, self.cache, n) for n in sizes}

    def new_cache(self, capacity: int) -> KVCache:
        """Return the cache, empty, whatever capacity is asked for. Older ones are then refused."""
        self.cache = copy(self.cache)  # another `length`, the same memory
        self.cache.length = 0
        return self.cache

    def forward(self, tokens: Tensor, cache: KVCache | None = None,
                last: int | None = None) -> Tensor:
        """Return what the model's forward returns, up to rounding, for tokens (1, T).

        Raises ValueError as it does, and for an old cache.
        """
        T = tokens.shape[1]
        size = next((n for n in self.blocks if n >= T), None)
        self.check_cache(cache)
        if cache is None or size is None:
            return self.model.forward(tokens, cache, last)
        last = T if last is None else last
        check_block(self.config, cache.length, T, last)
        logits = self.blocks[size](tokens, cache.length)  # (1, size, n_vocab)
        cache.extend(T)
        # (1, last, n_vocab), a copy, since the next replay overwrites the original
        return logits[:, T - last:T].clone()

    def check_cache(self, cache: KVCache | None) -> None:
        """Raise ValueError for an old cache."""
        if cache not in (None, self.cache):
            raise ValueError("this cache is no longer in use: "
                             "there is one, and new_cache was called again")


class FixedBlock:
    """A forward pass over `size` tokens at any position, recorded where that is possible."""

    @torch.no_grad()
    def __init__(self, model: Decoder, cache: KVCache, size: int) -> None:
        device = model.device
        self.model, self.cache = model, cache
        self.tokens = torch.zeros(1, size, dtype=torch.long, device=device)
        self.start = torch.zeros(1, dtype=torch.long, device=device)
        self.offsets = torch.arange(size, device=device)
        self.columns = torch.arange(cache.capacity, device=device)
        self.run = self.forward
        if device.type == "cuda":
            with torch.cuda.device(device):
                self.run = record(self.forward)

    def __call__(self, tokens: Tensor, start: int) -> Tensor:
        """Return logits (1, size, n_vocab) for tokens (1, T <= size) after `start` cached ones.

        Positions beyond T keep the ids of an earlier block, and their logits mean nothing. They do
        not disturb the T real ones: no position looks at a later one, and the keys and values they
        leave in the cache are hidden until real ones take their place.
        """
        self.tokens[:, : tokens.shape[1]].copy_(tokens)
        self.start.fill_(start)
        return self.run()

    @torch.no_grad()
    def forward(self) -> Tensor:
        """Run the model with every shape fixed: the mask covers the whole cache."""
        positions = self.start + self.offsets  # (size,)
        visible = self.columns <= positions[:, None]  # (size, capacity)
        mask = torch.zeros_like(visible, dtype=self.model.dtype).masked_fill(~visible, -torch.inf)
        slots = Slots(self.cache, positions)
        last_position = self.model.config.n_ctx - 1  # the filling may lie beyond it
        positions = positions.clamp(max=last_position)
        x = self.model.read(self.tokens, positions, mask, slots)  # (1, size, n_embd)
        return self.model.logits(x)  # (1, size, n_vocab)


class Slots(KVCache):
    """A cache as a block of fixed shape sees it: a tensor says where to write, and all is read."""

    def __init__(self, cache: KVCache, positions: Tensor) -> None:
        self.layers, self.positions = cache.layers, positions

    def store(self, layer: int, kv: Tensor) -> Tensor:
        """Write the new keys and values of one layer; return all of them, whether seen or not.

        kv: (2, 1, n_head, size, d_head). Returns (2, 1, n_head, capacity, d_head).
        """
        return self.layers[layer].index_copy_(3, self.positions, kv)


def record(forward: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Record `forward` as a CUDA graph, and return a function that replays it.

    That function returns the same tensor every time, filled anew.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # first calls allocate memory and try kernels: not to be recorded
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = forward()

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay
