"""Plausible wrong answers to the exercises of notebook 1."""
import torch


def next_token(logits):
    """The largest of all rows."""
    return logits.argmax().item() % logits.shape[1]


def tokens_read(L, N, cached):
    """As if the cache had everything to begin with."""
    return N if cached else sum(range(L, L + N))


def cache_bytes(n_layer, n_embd, length, size):
    """Keys only."""
    return n_layer * n_embd * length * size


def visible(start, T):
    """The triangle at the wrong corner: new tokens see the beginning, not one another."""
    return torch.ones(T, start + T, dtype=torch.bool).tril()
