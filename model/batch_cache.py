"""A key/value cache for texts of different lengths, and one pass of a model over all of them.

Each text begins at the front of its own row, and stays there. B texts, T new tokens of each,
S columns: the longest text's.
"""
import torch
from torch import Tensor

from model.decoder import Decoder
from model.kv_cache import KVCache

FILLER = 0  # an id that is read where a text has fewer new tokens than another; nothing looks at it


class BatchCache:
    """Keys and values of every layer for the first lengths[b] positions of text b.

    `lengths` is the only state, and no tensor: nothing waits for a GPU to know it. What lies beyond
    a text's length is hidden by the mask of a pass, and overwritten later, so rejected tokens and
    fillers are forgotten in the same way.

    memory: an empty cache with a row for each text that there can be at once.
    """

    def __init__(self, memory: KVCache) -> None:
        self.memory = memory
        self.layers = memory.layers  # of each layer (2, rows, n_head, capacity, d_head)
        self.lengths: list[int] = []

    def add(self, n: int) -> None:
        """Begin n texts, after those that are here."""
        self.lengths = self.lengths + [0] * n

    def truncate(self, lengths: list[int]) -> None:
        """Keep at most the first lengths[b] positions of text b, and forget the rest."""
        self.lengths = [min(pair) for pair in zip(self.lengths, lengths, strict=True)]

    def select(self, texts: list[int]) -> None:
        """Keep these texts only, in their old order: those after a gap are moved up."""
        if texts != list(range(len(texts))):
            self.memory.move_texts(texts)
        self.lengths = [self.lengths[b] for b in texts]


class BatchSlots(KVCache):
    """The cache as one pass sees it: where T new tokens of each text go, and what they look at.

    positions: (B, T) text b's tokens stand right after its last one.
    mask: (B, 1, T, S) 0 = visible, -inf = hidden: each token sees its own text up to itself.
    """

    def __init__(self, cache: BatchCache, T: int, first: int) -> None:
        self.cache, self.first, self.layers = cache, first, cache.layers
        device, dtype = self.layers[0].device, self.layers[0].dtype
        B = len(cache.lengths) - first
        self.rows = slice(first, first + B)
        self.texts = torch.arange(first, first + B, device=device)[:, None]  # the same, (B, 1)
        lengths = torch.tensor(cache.lengths[first:], device=device)[:, None]  # (B, 1)
        self.positions = lengths + torch.arange(T, device=device)  # (B, T)
        self.width = max(cache.lengths[first:]) + T  # S
        hidden = torch.arange(self.width, device=device) > self.positions[..., None]  # (B, T, S)
        mask = torch.zeros(hidden.shape, device=device, dtype=dtype)
        self.mask = mask.masked_fill_(hidden, -torch.inf)[:, None]  # the same for all heads

    def store(self, layer: int, kv: Tensor) -> Tensor:
        """Write the new keys and values of one layer; return all columns that can be seen.

        kv: (2, B, n_head, T, d_head). Returns a view (2, B, n_head, S, d_head).
        """
        memory = self.layers[layer]
        # Two index tensors: PyTorch puts what they index, (B, T), before the other dimensions.
        memory[:, self.texts, :, self.positions] = kv.permute(1, 3, 0, 2, 4)
        return memory[:, self.rows, :, :self.width]


def read_texts(model: Decoder, cache: BatchCache, unread: list[list[int]], last: list[int],
               first: int = 0) -> Tensor:
    """Read the unread ids of the texts in one pass; return the logits that are asked for.

    unread: the ids of each text that follow what the cache holds of it; the cache then holds them.
        Texts with fewer than others are filled up on the right.
    last: after how many of its last tokens logits are wanted, for each text.
    first: texts before this one take no part.
    Returns (sum of last, n_vocab), text after text.

    The caller sees to it that they fit into the model's context, and T more than the longest text
    into the cache.
    """
    T = max(map(len, unread))
    ids = torch.tensor([new + [FILLER] * (T - len(new)) for new in unread], device=model.device)
    x = read_block(model, ids, BatchSlots(cache, T, first))  # (B, T, n_embd)
    for b, new in enumerate(unread, start=first):
        cache.lengths[b] += len(new)  # fillers do not count
    wanted = [(b, t) for b, n in enumerate(last) for t in range(len(unread[b]) - n, len(unread[b]))]
    texts, columns = torch.tensor(wanted, dtype=torch.long).view(-1, 2).T.to(x.device)
    return model.logits(x[texts, columns][None])[0]  # (sum of last, n_vocab)


def read_block(model: Decoder, ids: Tensor, slots: BatchSlots) -> Tensor:
    """Read T new tokens of every text, ids (B, T); return what the last block makes of them."""
    positions = slots.positions.clamp(max=model.config.n_ctx - 1)  # a filler's may lie beyond
    return model.read(ids, positions, slots.mask, slots)  # (B, T, n_embd)


def admit(model: Decoder, cache: BatchCache, prompts: list[list[int]]) -> None:
    """Begin texts, after those that are here: read their prompts without the last token."""
    first = len(cache.lengths)
    cache.add(len(prompts))
    unread = [prompt[:-1] for prompt in prompts]
    if any(unread):
        read_texts(model, cache, unread, [0] * len(prompts), first)
