"""Process 0 decodes, and the others follow.

The loops, drafts, rules and the screen are process 0's own, and no other process knows of them.
Each of its passes is announced to the others, which do the same with their shares. So there is
nothing in which two processes could come to different decisions.
"""
from itertools import count
from weakref import finalize

import torch
from torch import Tensor

from model.batch_cache import BatchCache, BatchSlots, read_block
from model.decoder import Decoder, Place, check_block, check_last
from model.kv_cache import KVCache
from model.parallel import SharedOut, World


class Leader(Decoder):
    """A model that is shared out, as process 0 decodes with it: any loop may take it for whole."""

    def __init__(self, share: SharedOut, world: World) -> None:
        super().__init__()
        self.share, self.world, self.config = share, world, share.config
        self.numbers = count()  # of its caches

    def forward(self, tokens: Tensor, cache: KVCache | None = None, last: int | None = None,
                place: Place | None = None) -> Tensor:
        """Return what the whole model's forward returns, up to rounding.

        What does not fit is refused before the others hear of it.
        """
        T = tokens.shape[1]
        last = T if last is None else last
        if place is None:
            check_block(self.config, 0 if cache is None else cache.length, T, last)
        check_last(T, last)
        if cache is not None:
            cache.check_room(T)
        held = None if cache is None else (number_of(cache), cache.length)
        # To know drafted ids process 0 waits for its draft; a second message would cost as much.
        ids = tokens.tolist()
        with self.world.one_pass():
            self.world.announce("forward", ids, held, place)
            return self.share.forward(tokens, cache, last, place)  # (B, last, n_vocab)

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        """Read a block of several texts, for `read_texts`; other passes come by `forward`."""
        assert isinstance(cache, BatchSlots)
        texts = cache.cache
        with self.world.one_pass():
            self.world.announce("read_block", tokens.tolist(), number_of(texts.memory),
                                texts.lengths, cache.first)
            return self.share.read(tokens, positions, mask, cache)  # (B, T, n_embd)

    def logits(self, x: Tensor) -> Tensor:
        return self.share.logits(x)

    @property
    def embedding(self) -> Tensor:
        return self.share.embedding

    def new_cache(self, capacity: int, batch: int = 1) -> "LedCache":
        cache = LedCache(self.share, capacity, batch, self.world, next(self.numbers))
        self.world.announce("new_cache", cache.number, capacity, batch)
        finalize(cache, self.world.announce_later, "forget", cache.number)
        return cache


class LedCache(KVCache):
    """Process 0's part of a cache. What it moves in its memory, the others move in theirs."""

    def __init__(self, share: SharedOut, capacity: int, batch: int, world: World,
                 number: int) -> None:
        super().__init__(*share.cache_sizes, capacity, batch, share.device, share.dtype)
        self.world, self.number = world, number

    def move_rows(self, rows: list[int], to: int) -> None:
        self.world.announce("move_rows", self.number, rows, to)
        super().move_rows(rows, to)

    def move_texts(self, texts: list[int]) -> None:
        self.world.announce("move_texts", self.number, texts)
        super().move_texts(texts)


def number_of(cache: KVCache) -> int:
    assert isinstance(cache, LedCache)
    return cache.number


class Follower:
    """What every other process does: a method for everything that is announced.

    Nobody needs its logits. `last` is 0, and it has no output head.
    """

    def __init__(self) -> None:
        self.caches: dict[int, KVCache] = {}

    def use(self, share: SharedOut) -> None:
        """Follow the passes of another model."""
        self.share = share
        self.caches.clear()

    def forward(self, ids: list[list[int]], held: tuple[int, int] | None,
                place: Place | None) -> None:
        """held: the cache of the pass and its length, None without a cache."""
        cache = None
        if held is not None:
            number, length = held
            cache = self.caches[number]
            cache.length = length  # what was rejected is forgotten here as it was there
        self.share.forward(torch.tensor(ids), cache, 0, place)

    def read_block(self, ids: list[list[int]], number: int, lengths: list[int],
                   first: int) -> None:
        texts = BatchCache(self.caches[number])
        texts.lengths = lengths
        slots = BatchSlots(texts, len(ids[0]), first)
        read_block(self.share, torch.tensor(ids, device=self.share.device), slots)

    def new_cache(self, number: int, capacity: int, batch: int) -> None:
        self.caches[number] = self.share.new_cache(capacity, batch)

    def forget(self, number: int) -> None:
        self.caches.pop(number, None)

    def move_rows(self, number: int, rows: list[int], to: int) -> None:
        self.caches[number].move_rows(rows, to)

    def move_texts(self, number: int, texts: list[int]) -> None:
        self.caches[number].move_texts(texts)
