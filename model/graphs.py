"""The forward passes of decoding as CUDA graphs: a GPU is told once what to do, and from then on only "again".

A forward pass of GPT-2 is hundreds of small operations. At batch 1 a GPU does most of them in less time than it takes to
hand it the next. A CUDA graph is a recording of all of them that one call replays. It always works on the same memory
in the same shapes, so whatever changes from pass to pass has to be what a tensor holds, not which tensor or how large:
the ids, the place in the text, and, by the mask, how much of the cache can be seen.
"""
from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from model.gpt2 import GPT2, check_block
from model.kv_cache import KVCache


class GraphedGPT2:
    """Decodes like `model`, with blocks of few tokens replayed; a longer block, such as a prompt, runs as it always did.

    rows: the sizes of block that are recorded; smaller ones are filled up to the next. On a device without CUDA graphs the
    same fixed shapes run unrecorded, which is good for tests only. The memory of the cache is part of the
    recordings, so there is one cache, with room for the whole context and for the filling, and `new_cache` empties it.
    """

    def __init__(self, model: GPT2, rows: tuple[int, ...]) -> None:
        self.model, self.config = model, model.config
        room = -(-(self.config.n_ctx + max(rows)) // 8) * 8  # a multiple of 8, which fast attention asks of a mask
        self.cache = model.new_cache(room)
        self.blocks = {n: FixedBlock(model, self.cache, n) for n in sorted(set(rows))}

    def new_cache(self, capacity: int) -> KVCache:
        """The cache, empty, whatever capacity is asked for. One handed out before cannot be used any more."""
        self.cache = copy(self.cache)  # another `length`, the same memory
        self.cache.length = 0
        return self.cache

    def forward(self, tokens: Tensor, cache: KVCache | None = None, last: int | None = None) -> Tensor:
        """What `GPT2.forward` returns, up to rounding. tokens: (1, T). Raises ValueError as it does, and for an old cache."""
        T = tokens.shape[1]
        rows = next((n for n in self.blocks if n >= T), None)
        if cache not in (None, self.cache):
            raise ValueError("this cache is no longer in use: there is one, and new_cache was called again")
        if cache is None or rows is None:
            return self.model.forward(tokens, cache, last)
        last = T if last is None else last
        check_block(self.config, cache.length, T, last)
        logits = self.blocks[rows](tokens, cache.length)  # (1, rows, n_vocab)
        cache.extend(T)
        return logits[:, T - last:T].clone()  # (1, last, n_vocab); the next replay overwrites the original


class FixedBlock:
    """A forward pass over `rows` tokens at any place of the text, recorded where that is possible."""

    @torch.no_grad()
    def __init__(self, model: GPT2, cache: KVCache, rows: int) -> None:
        device = model.wpe.weight.device
        self.model = model
        self.tokens = torch.zeros(1, rows, dtype=torch.long, device=device)
        self.start = torch.zeros(1, dtype=torch.long, device=device)
        self.offsets = torch.arange(rows, device=device)
        self.columns = torch.arange(cache.capacity, device=device)
        self.keys, self.values = cache.keys, cache.values
        self.run = self.forward
        if device.type == "cuda":
            with torch.cuda.device(device):
                self.run = record(self.forward)

    def __call__(self, tokens: Tensor, start: int) -> Tensor:
        """Logits (1, rows, n_vocab) for tokens (1, T <= rows) behind `start` cached ones; those beyond T mean nothing.

        The block is filled up with ids of an earlier one. No row looks at a later one, and the keys and values they leave
        behind the T real ones are hidden until real ones take their place.
        """
        self.tokens[:, : tokens.shape[1]].copy_(tokens)
        self.start.fill_(start)
        return self.run()

    @torch.no_grad()
    def forward(self) -> Tensor:
        """`GPT2.forward`, with every shape fixed."""
        model, positions = self.model, self.start + self.offsets  # (rows,)
        x = model.wte(self.tokens) + model.wpe(positions.clamp(max=model.config.n_ctx - 1))  # (1, rows, n_embd)
        visible = self.columns <= positions[:, None]  # (rows, capacity)
        mask = torch.zeros_like(visible, dtype=x.dtype).masked_fill(~visible, -torch.inf)
        slots = Slots(self.keys, self.values, positions)
        for layer, block in enumerate(model.h):
            x = block(x, mask, slots, layer)
        return model.head(model.ln_f(x), model.wte.weight)  # (1, rows, n_vocab)


class Slots(NamedTuple):
    """The cache as a block of fixed shape sees it: the places to write are a tensor, and all of it is read."""

    keys: Tensor  # (n_layer, 1, n_head, capacity, d_head)
    values: Tensor
    positions: Tensor  # (rows,)

    def store(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the rows of one layer, each (1, n_head, rows, d_head); return all there is (1, n_head, capacity, d_head)."""
        return self.keys[layer].index_copy_(2, self.positions, k), self.values[layer].index_copy_(2, self.positions, v)


def record(forward: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """`forward` as a CUDA graph: a function that replays it and returns the same tensor, filled anew, every time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries allocate and choose in their first calls, which must not be recorded
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
