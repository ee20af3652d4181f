"""Llama (Touvron et al. 2023; Llama 3: Grattafiori et al. 2024), and what is built like it.

Every name is the official checkpoint's. B sequences of T new tokens.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import attend, heads
from model.config import Config
from model.decoder import Decoder, TiedHead
from model.kv_cache import KVCache
from model.rotary import Rope, turn, turns


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """See `Config`."""

    n_kv_head: int  # of keys and values; each serves n_head / n_kv_head heads of queries
    n_mlp: int
    rope: Rope
    eps: float  # of the norms
    tied: bool = False  # whether the output head is the token embedding

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_head {self.n_head} is not divisible by n_kv_head {self.n_kv_head}")

    @property
    def kv_heads(self) -> int:
        return self.n_kv_head


class RMSNorm(nn.Module):
    """LayerNorm without its mean and its bias."""

    def __init__(self, n_embd: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n_embd))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype.itemsize < 4 else x
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)  # (B, T, 1)
        return self.weight * (wide * scale).to(x.dtype)


class Attention(nn.Module):
    """Lets each token gather from the tokens before it."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.d_head, d_kv = config.d_head, config.n_kv_head * config.d_head
        self.q_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.k_proj = nn.Linear(config.n_embd, d_kv, bias=False)
        self.v_proj = nn.Linear(config.n_embd, d_kv, bias=False)
        self.o_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor], mask: Tensor | None,
                cache: KVCache | None, layer: int) -> Tensor:
        q = turn(heads(self.q_proj(x), self.d_head), *cos_sin)  # (B, n_head, T, d_head)
        k = turn(heads(self.k_proj(x), self.d_head), *cos_sin)  # (B, n_kv_head, T, d_head)
        v = heads(self.v_proj(x), self.d_head)
        return self.o_proj(attend(q, torch.stack([k, v]), mask, cache, layer))  # (B, T, n_embd)


class MLP(nn.Module):
    """Works on each position by itself; one half says how much of the other passes."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.n_embd, config.n_mlp, bias=False)
        self.up_proj = nn.Linear(config.n_embd, config.n_mlp, bias=False)
        self.down_proj = nn.Linear(config.n_mlp, config.n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # (B, T, n_embd)


class Block(nn.Module):
    """Adds to the residual stream what attention and then the MLP make of it."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.n_embd, config.eps)
        self.post_attention_layernorm = RMSNorm(config.n_embd, config.eps)

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor], mask: Tensor | None,
                cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos_sin, mask, cache, layer)
        return x + self.mlp(self.post_attention_layernorm(x))  # (B, T, n_embd)


class Llama(Decoder):
    """A Llama with PyTorch's initial weights; `weights.load_model` makes one with trained ones."""

    config: LlamaConfig

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        n_rows = config.n_vocab + config.n_padding
        self.embed_tokens = nn.Embedding(n_rows, config.n_embd)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = RMSNorm(config.n_embd, config.eps)
        if config.tied:
            self.head = TiedHead()
        else:
            self.lm_head = nn.Linear(config.n_embd, n_rows, bias=False)

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        x = self.embed_tokens(tokens)  # (B, T, n_embd)
        cos_sin = turns(positions, self.config.rope, x)
        for layer, block in enumerate(self.layers):
            x = block(x, cos_sin, mask, cache, layer)
        return x

    def logits(self, x: Tensor) -> Tensor:
        x, n_vocab = self.norm(x), self.config.n_vocab
        if self.config.tied:
            return self.head(x, self.embed_tokens.weight[:n_vocab])  # (B, T, n_vocab)
        return self.lm_head(x)[..., :n_vocab]

    @property
    def embedding(self) -> Tensor:
        return self.embed_tokens.weight
