"""OPT (Zhang et al. 2022): GPT-2 with ReLU, and one size, 350m, that is built otherwise.

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

OFFSET = 2  # rows of the table of positions before the first: of padding, and one never used


@dataclass(frozen=True, kw_only=True)
class OPTConfig(Config):
    """See `Config`."""

    n_mlp: int
    n_word: int  # width of the token embedding
    pre_norm: bool = True  # norms before attention and MLP; opt-350m has them after, none at last


class Attention(nn.Module):
    """Lets each token gather from the tokens before it."""

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        self.d_head = config.d_head
        self.k_proj = nn.Linear(config.n_embd, config.n_embd)
        self.v_proj = nn.Linear(config.n_embd, config.n_embd)
        self.q_proj = nn.Linear(config.n_embd, config.n_embd)
        self.out_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        q, k, v = (heads(part(x), self.d_head)
                   for part in (self.q_proj, self.k_proj, self.v_proj))  # (B, n_head, T, d_head)
        return self.out_proj(attend(q, torch.stack([k, v]), mask, cache, layer))


class Block(nn.Module):
    """Adds to the residual stream what attention and then the MLP make of it."""

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.self_attn = Attention(config)
        self.self_attn_layer_norm = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.fc1 = nn.Linear(config.n_embd, config.n_mlp)
        self.fc2 = nn.Linear(config.n_mlp, config.n_embd)
        self.final_layer_norm = nn.LayerNorm(config.n_embd, eps=1e-5)  # of the block

    def mlp(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))

    def forward(self, x: Tensor, mask: Tensor | None, cache: KVCache | None, layer: int) -> Tensor:
        if self.pre_norm:
            x = x + self.self_attn(self.self_attn_layer_norm(x), mask, cache, layer)
            return x + self.mlp(self.final_layer_norm(x))  # (B, T, n_embd)
        x = self.self_attn_layer_norm(x + self.self_attn(x, mask, cache, layer))
        return self.final_layer_norm(x + self.mlp(x))


class OPT(Decoder):
    """An OPT with PyTorch's initial weights; `weights.load_model` makes one with trained ones."""

    config: OPTConfig

    def __init__(self, config: OPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.n_vocab + config.n_padding, config.n_word)
        self.embed_positions = nn.Embedding(OFFSET + config.n_ctx, config.n_embd)
        if config.n_word != config.n_embd:
            self.project_in = nn.Linear(config.n_word, config.n_embd, bias=False)
            self.project_out = nn.Linear(config.n_embd, config.n_word, bias=False)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        if config.pre_norm:
            self.final_layer_norm = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.head = TiedHead()

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        x = self.embed_tokens(tokens)  # (B, T, n_word)
        if self.config.n_word != self.config.n_embd:
            x = self.project_in(x)
        x = x + self.embed_positions.weight[OFFSET:][positions]  # (B, T, n_embd)
        for layer, block in enumerate(self.layers):
            x = block(x, mask, cache, layer)
        return x

    def logits(self, x: Tensor) -> Tensor:
        if self.config.pre_norm:
            x = self.final_layer_norm(x)
        if self.config.n_word != self.config.n_embd:
            x = self.project_out(x)  # (B, T, n_word)
        return self.head(x, self.embed_tokens.weight[:self.config.n_vocab])  # (B, T, n_vocab)

    @property
    def embedding(self) -> Tensor:
        return self.embed_tokens.weight
