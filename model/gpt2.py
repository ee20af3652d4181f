"""GPT-2 (Radford et al. 2019): its configuration and its forward pass.

Every name is the official checkpoint's. B sequences of T new tokens, d_head = n_embd / n_head.
"""
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import attend
from model.config import Config
from model.decoder import Decoder, TiedHead
from model.kv_cache import KVCache


@dataclass(frozen=True)
class GPT2Config(Config):
    """See `Config`."""

    n_vocab: int = 50257
    n_ctx: int = 1024


OFFICIAL_CONFIGS = {
    "gpt2": GPT2Config(n_layer=12, n_head=12, n_embd=768),
    "gpt2-medium": GPT2Config(n_layer=24, n_head=16, n_embd=1024),
    "gpt2-large": GPT2Config(n_layer=36, n_head=20, n_embd=1280),
    "gpt2-xl": GPT2Config(n_layer=48, n_head=25, n_embd=1600),
}


class Attention(nn.Module):
    """Lets each token gather from the tokens before it."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.d_head = config.d_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        B, T, _ = x.shape
        qkv = self.c_attn(x).view(B, T, 3, -1, self.d_head)  # -1: n_head, or this process's share
        qkv = qkv.permute(2, 0, 3, 1, 4)  # (3, B, n_head, T, d_head)
        return self.c_proj(attend(qkv[0], qkv[1:], mask, cache, layer))  # (B, T, n_embd)


class MLP(nn.Module):
    """Works on each position by itself."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.c_fc(x), approximate="tanh")  # GPT-2 was trained with the tanh form
        return self.c_proj(x)  # (B, T, n_embd)


class Block(nn.Module):
    """Adds to the residual stream what attention and then the MLP make of it."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask, cache, layer)
        return x + self.mlp(self.ln_2(x))  # (B, T, n_embd)


class GPT2(Decoder):
    """A GPT-2 with PyTorch's initial weights; `weights.load_model` makes one with trained ones."""

    config: GPT2Config

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.n_vocab + config.n_padding, config.n_embd)
        self.wpe = nn.Embedding(config.n_ctx, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.head = TiedHead()

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        # A slice of wpe is a view and costs nothing; a lookup costs 2 to 4 % of a small step.
        x = self.wte(tokens) + self.wpe.weight[positions]  # (B, T, n_embd)
        for layer, block in enumerate(self.h):
            x = block(x, mask, cache, layer)
        return x

    def logits(self, x: Tensor) -> Tensor:
        return self.head(self.ln_f(x), self.wte.weight[:self.config.n_vocab])  # (B, T, n_vocab)

    @property
    def embedding(self) -> Tensor:
        return self.wte.weight
