"""Attention with a key/value cache, and the mask that a block of several new tokens needs.

B sequences of T new tokens, S = positions already cached + T.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.kv_cache import KVCache


def attend(q: Tensor, kv: Tensor, mask: Tensor | None,
           cache: KVCache | None, layer: int) -> Tensor:
    """Return what each new token reads from the tokens it may look at, (B, T, n_head * d_head).

    q: queries of the new tokens, (B, n_head, T, d_head).
    kv: their keys and values, (2, B, n_head, T, d_head).
    mask: added to the scores, (T, S) or (B, 1, T, S): 0 = visible, -inf = hidden; see `block_mask`.
    cache: keys and values of earlier tokens; this layer's new ones are stored in it.
    """
    if cache is not None:
        kv = cache.store(layer, kv)  # (2, B, n_head, S, d_head)
    # Without a mask every token sees all there is: right for one new token. A block before an empty
    # cache is "causal", the plain lower triangle. A block after a cached prefix needs a mask.
    causal = mask is None and q.shape[2] > 1
    y = F.scaled_dot_product_attention(q, kv[0], kv[1], attn_mask=mask, is_causal=causal)
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
