"""GPT-2 (Radford et al. 2019), forward pass and nothing else. Every name is the official checkpoint's.

B sequences of T new tokens, S = positions already cached + T, d_head = n_embd / n_head.
"""
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import GPT2Config
from model.kv_cache import KVCache


class Attention(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        B, T, n_embd = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.n_head, n_embd // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, n_head, T, d_head)
        if cache is not None:
            k, v = cache.store(layer, k, v)  # (B, n_head, S, d_head)
        # Without a mask every token may look at everything there is: right for one new token. Alone in front of an empty
        # cache, "causal" is the plain lower triangle. A block behind a cached prefix needs the mask of `block_mask`.
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and T > 1)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, n_embd))


class MLP(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # GPT-2 was trained with the tanh form


class Block(nn.Module):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask, cache, layer)
        return x + self.mlp(self.ln_2(x))  # (B, T, n_embd)


class TiedHead(nn.Module):
    """The output head, which has no weights of its own: it compares x with the embedding of every token."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        return F.linear(x, wte)  # (B, T, n_vocab)


class GPT2(nn.Module):
    """A GPT-2 of the given shape, with PyTorch's initial weights until a checkpoint is loaded (`weights.load_model`)."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.n_vocab, config.n_embd)
        self.wpe = nn.Embedding(config.n_ctx, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.head = TiedHead()

    def forward(self, tokens: Tensor, cache: KVCache | None = None, last: int | None = None) -> Tensor:
        """Logits for the token after each of the last `last` positions (of all T when None; of none when 0).

        tokens: (B, T) ids, T >= 1, which follow what `cache` holds; the cache then holds them too. Returns (B, last or T,
        n_vocab). Raises ValueError when the context, or the cache, has no room for them, or `last` is more than T.
        A forward with a cache is for inference only: it overwrites memory that a backward pass would need.
        """
        tokens = tokens.to(self.wpe.weight.device)
        T = tokens.shape[1]
        last = T if last is None else last
        start = 0 if cache is None else cache.length
        check_block(self.config, start, T, last)
        x = self.wte(tokens) + self.wpe.weight[start:start + T]  # (B, T, n_embd)
        mask = block_mask(start, T, x)
        for layer, block in enumerate(self.h):
            x = block(x, mask, cache, layer)
        if cache is not None:
            cache.extend(T)
        x = self.ln_f(x[:, T - last:])
        return self.head(x, self.wte.weight)  # (B, last, n_vocab)

    def new_cache(self, capacity: int, batch: int = 1) -> KVCache:
        """An empty cache for `capacity` positions of `batch` sequences, on the model's device and in its dtype."""
        return KVCache(self.config, capacity, batch, self.wpe.weight.device, self.wpe.weight.dtype)


def check_block(config: GPT2Config, start: int, T: int, last: int) -> None:
    """Raises ValueError unless T tokens behind `start` others fit into the context, and `last` of them can be asked for."""
    if start + T > config.n_ctx:
        raise ValueError(f"the model reads at most {config.n_ctx} tokens, not {start + T}")
    if not 0 <= last <= T:
        raise ValueError(f"the last {last} of {T} positions were asked for")


def block_mask(start: int, T: int, x: Tensor) -> Tensor | None:
    """What each of T new tokens may look at behind `start` cached ones, (T, start + T): 0 = visible, -inf = hidden.

    Row i sees the whole prefix and the new tokens up to itself. None where no mask is needed: one token sees everything,
    and a block in front of an empty cache is plainly causal. (PyTorch's is_causal would align the triangle with the
    cache's first column instead of its last.) It is added to the scores; True and False would be converted in every layer.
    """
    if T == 1 or start == 0:
        return None
    return x.new_full((T, start + T), -torch.inf).triu(start + 1)
