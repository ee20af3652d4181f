"""Attention with a key/value cache, and the mask that a block of several new tokens needs.

B sequences of T new tokens, S = positions already cached + T.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.kv_cache import KVCache


def heads(x: Tensor, d_head: int) -> Tensor:
    """Return x (B, T, n * d_head) cut into n heads, (B, n, T, d_head)."""
    return x.unflatten(-1, (-1, d_head)).transpose(1, 2)


def attend(q: Tensor, kv: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int,
           scale: float | None = None) -> Tensor:
    """Return what each new token reads from the tokens it may look at, (B, T, n_head * d_head).

    q: queries of the new tokens, (B, n_head, T, d_head).
    kv: their keys and values, (2, B, n_kv, T, d_head). With fewer heads than q has, each of them
        serves n_head / n_kv heads of q in a row.
    mask: added to the scores, (T, S) or (B, 1, T, S): 0 = visible, -inf = hidden; see `block_mask`.
    cache: keys and values of earlier tokens; this layer's new ones are stored in it.
    scale: of the scores; None for 1 / sqrt(d_head).
    """
    if cache is not None:
        kv = cache.store(layer, kv)  # (2, B, n_kv, S, d_head)
    # Without a mask every token sees all there is: right for one new token. A block before an empty
    # cache is "causal", the plain lower triangle. A block after a cached prefix needs a mask.
    causal = mask is None and q.shape[2] > 1
    share = q.shape[1] // kv.shape[2]
    if share > 1 and not causal:
        # Heads that share keys become further rows of one product: fast on any processor.
        rows = q.unflatten(1, (-1, share)).flatten(2, 3)  # (B, n_kv, share * T, d_head)
        masks = None if mask is None else torch.cat([mask] * share, dim=-2)
        y = F.scaled_dot_product_attention(rows, kv[0], kv[1], masks, scale=scale)
        y = y.reshape(q.shape)  # a view would not do: some kernels order positions before heads
    else:
        y = F.scaled_dot_product_attention(q, kv[0], kv[1], mask, is_causal=causal, scale=scale,
                                           enable_gqa=share > 1)
    return y.transpose(1, 2).flatten(2)  # (B, T, n_head * d_head)


def block_mask(start: int, T: int, like: Tensor) -> Tensor | None:
    """Return what each of T new tokens may look at after `start` cached ones, (T, start + T).

    0 = visible, -inf = hidden: row i sees the whole prefix and the new tokens up to itself. Returns
    None where no mask is needed: one token sees everything, and a block before an empty cache is
    plainly causal. (PyTorch's is_causal would align the triangle with the cache's first column
    instead of its last.) The mask is added to the scores; True and False would be converted in
    every layer.

    like: a tensor of the dtype and on the device that the mask will have.
    """
    if T == 1 or start == 0:
        return None
    return like.new_full((T, start + T), -torch.inf).triu(start + 1)


def near_mask(mask: Tensor | None, positions: slice | Tensor, window: int,
              like: Tensor) -> Tensor | None:
    """Return the mask with everything hidden that is `window` or more positions back.

    mask, positions: as `Decoder.read` has them; None is for a slice of positions only.
    like: as for `block_mask`.
    """
    S = positions.stop if isinstance(positions, slice) else mask.shape[-1]  # type: ignore
    if S <= window:
        return mask
    columns = torch.arange(S, device=like.device)  # where the keys stand in the text
    rows = columns[positions] if isinstance(positions, slice) else positions  # (T,) or (B, T)
    if rows.dim() == 1:  # in a tree, a new token's column lies beyond its position
        columns[S - len(rows):] = rows
    far = columns <= rows[..., None] - window  # (T, S) or (B, T, S)
    if mask is None:
        mask = like.new_zeros(far.shape).masked_fill_(columns > rows[..., None], -torch.inf)
    return mask.masked_fill(far if far.dim() == 2 else far[:, None], -torch.inf)
