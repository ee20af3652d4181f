"""The key/value cache: what the model has read, kept so that it need not be read again."""
import torch
from torch import Tensor


class KVCache:
    """Keys and values of every layer for the first `length` positions of a sequence.

    Memory is allocated once, for `capacity` positions. `length` is the only state, and all layers
    share it, so forgetting rejected tokens is one assignment: what lies beyond `length` is never
    read, and overwritten later.
    """

    def __init__(self, n_layer: int, n_head: int, d_head: int, capacity: int, batch: int = 1,
                 device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        if capacity < 0:
            raise ValueError(f"capacity must not be negative, but is {capacity}")
        shape = (n_layer, 2, batch, n_head, capacity, d_head)
        memory = torch.zeros(shape, device=device, dtype=dtype)
        # Two views, (n_layer, B, n_head, capacity, d_head) each.
        self.keys, self.values = memory[:, 0], memory[:, 1]
        # The same by layers: one copy stores both keys and values.
        self.layers = [memory[layer] for layer in range(n_layer)]
        self.length = 0

    @property
    def capacity(self) -> int:
        """The most positions that fit."""
        return self.keys.shape[3]

    def store(self, layer: int, kv: Tensor) -> Tensor:
        """Write T new positions of one layer after `length`; return all keys and values up to them.

        kv: keys and values, (2, B, n_head, T, d_head). Returns a view (2, B, n_head, length + T,
        d_head). `length` itself moves only when every layer is written, with `extend`, so that a
        forward pass cut short leaves the cache as it was. Raises ValueError if they do not fit.
        """
        self.check_room(kv.shape[3])
        end = self.length + kv.shape[3]
        self.layers[layer].narrow(3, self.length, end - self.length).copy_(kv)
        return self.layers[layer].narrow(3, 0, end)

    def check_room(self, n: int) -> None:
        """Raise ValueError unless n more positions fit."""
        end = self.length + n
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} positions, but {end} are needed")

    def extend(self, n: int) -> None:
        """Count the n positions that every layer has stored."""
        self.length += n

    def truncate(self, length: int) -> None:
        """Keep the first `length` positions and forget the rest.

        Raises ValueError unless 0 <= length <= self.length.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate a cache of length {self.length} to {length}")
        self.length = length

    def keep(self, length: int, rows: list[int]) -> None:
        """Keep the first `length` positions, then the given ones, in this order; forget the rest.

        The accepted path of a tree lies scattered among other branches. Rows that are in place, as
        a chain's are, cost nothing.
        rows: which positions, each at least `length`. Raises ValueError for one that is not there.
        """
        if not all(length <= row < self.length for row in rows):
            raise ValueError(f"rows {rows} are not among positions {length} to {self.length - 1}")
        end = length + len(rows)
        if rows != list(range(length, end)):
            self.move_rows(rows, length)
        self.truncate(end)

    def move_rows(self, rows: list[int], to: int) -> None:
        """Put the keys and values of these positions in a row, from position `to` on."""
        index = torch.tensor(rows, device=self.keys.device)
        for memory in (self.keys, self.values):  # reading by index copies, so no row is lost
            memory[:, :, :, to:to + len(rows)] = memory[:, :, :, index]

    def move_texts(self, texts: list[int]) -> None:
        """Put these sequences of the batch, in rising order, in the places 0, 1, ..."""
        for layer in self.layers:
            for b, old in enumerate(texts):
                if b < old:
                    layer[:, b] = layer[:, old]
