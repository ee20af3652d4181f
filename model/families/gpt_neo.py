"""GPT-Neo (Black et al. 2021): GPT-2 in which every other layer looks back 256 tokens, no further.

Every name is the official checkpoint's. B sequences of T new tokens.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import attend, heads, near_mask
from model.config import Config
from model.decoder import Decoder, TiedHead
from model.kv_cache import KVCache


@dataclass(frozen=True, kw_only=True)
class GPTNeoConfig(Config):
    """See `Config`."""

    window: int = 256  # how far layers 1, 3, 5, … look back, the token itself included


class SelfAttention(nn.Module):
    """Lets each token gather from the tokens before it."""

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.d_head = config.d_head
        self.k_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.v_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.q_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.out_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        q, k, v = (heads(part(x), self.d_head)
                   for part in (self.q_proj, self.k_proj, self.v_proj))  # (B, n_head, T, d_head)
        # GPT-Neo was trained without the usual 1 / sqrt(d_head).
        return self.out_proj(attend(q, torch.stack([k, v]), mask, cache, layer, scale=1.0))


class Attention(nn.Module):
    """A name between the block and its attention, as the checkpoint has it."""

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)


class MLP(nn.Module):
    """Works on each position by itself."""

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # (B, T, n_embd)


class Block(nn.Module):
    """Adds to the residual stream what attention and then the MLP make of it."""

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.attn.attention(self.ln_1(x), mask, cache, layer)
        return x + self.mlp(self.ln_2(x))  # (B, T, n_embd)


class GPTNeo(Decoder):
    """A GPT-Neo with PyTorch's initial weights; `weights.load_model` makes one with trained ones.
    """

    config: GPTNeoConfig

    def __init__(self, config: GPTNeoConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.n_vocab + config.n_padding, config.n_embd)
        self.wpe = nn.Embedding(config.n_ctx, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.head = TiedHead()

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        x = self.wte(tokens) + self.wpe.weight[positions]  # (B, T, n_embd)
        near = near_mask(mask, positions, self.config.window, x)
        for layer, block in enumerate(self.h):
            x = block(x, near if layer % 2 else mask, cache, layer)
        return x

    def logits(self, x: Tensor) -> Tensor:
        return self.head(self.ln_f(x), self.wte.weight[:self.config.n_vocab])  # (B, T, n_vocab)

    @property
    def embedding(self) -> Tensor:
        return self.wte.weight
