"""GPT-NeoX (Black et al. 2022), as Pythia has it: attention and MLP side by side.

Every name is the official checkpoint's. B sequences of T new tokens.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import attend
from model.config import Config
from model.decoder import Decoder
from model.kv_cache import KVCache
from model.rotary import Rope, turn, turns


@dataclass(frozen=True, kw_only=True)
class GPTNeoXConfig(Config):
    """See `Config`."""

    n_mlp: int
    rope: Rope


class Attention(nn.Module):
    """Lets each token gather from the tokens before it."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.d_head = config.d_head
        self.query_key_value = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.dense = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor], mask: Tensor | None,
                cache: KVCache | None, layer: int) -> Tensor:
        B, T, _ = x.shape
        qkv = self.query_key_value(x).view(B, T, -1, 3, self.d_head)  # head by head, not as GPT-2's
        q, k, v = qkv.permute(3, 0, 2, 1, 4)  # each (B, n_head, T, d_head)
        kv = torch.stack([turn(k, *cos_sin), v])
        return self.dense(attend(turn(q, *cos_sin), kv, mask, cache, layer))  # (B, T, n_embd)


class MLP(nn.Module):
    """Works on each position by itself."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.dense_h_to_4h = nn.Linear(config.n_embd, config.n_mlp)
        self.dense_4h_to_h = nn.Linear(config.n_mlp, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense_4h_to_h(F.gelu(self.dense_h_to_4h(x)))  # the exact form, not the tanh one


class Block(nn.Module):
    """Adds to the residual stream what attention and the MLP make of it, both of the same x."""

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.post_attention_layernorm = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.attention = Attention(config)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos_sin: tuple[Tensor, Tensor], mask: Tensor | None,
                cache: KVCache | None, layer: int) -> Tensor:
        attended = self.attention(self.input_layernorm(x), cos_sin, mask, cache, layer)
        return x + attended + self.mlp(self.post_attention_layernorm(x))  # (B, T, n_embd)


class GPTNeoX(Decoder):
    """A GPT-NeoX with PyTorch's initial weights; `weights.load_model` makes one with trained ones.
    """

    config: GPTNeoXConfig

    def __init__(self, config: GPTNeoXConfig) -> None:
        super().__init__()
        self.config = config
        n_rows = config.n_vocab + config.n_padding
        self.embed_in = nn.Embedding(n_rows, config.n_embd)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.final_layer_norm = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.embed_out = nn.Linear(config.n_embd, n_rows, bias=False)  # a matrix of its own

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        x = self.embed_in(tokens)  # (B, T, n_embd)
        cos_sin = turns(positions, self.config.rope, x)
        for layer, block in enumerate(self.layers):
            x = block(x, cos_sin, mask, cache, layer)
        return x

    def logits(self, x: Tensor) -> Tensor:
        logits = self.embed_out(self.final_layer_norm(x))  # (B, T, n_vocab + n_padding)
        return logits[..., :self.config.n_vocab]

    @property
    def embedding(self) -> Tensor:
        return self.embed_in.weight
