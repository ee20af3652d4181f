"""Solutions to the exercises of notebook 1."""
import torch


def next_token(logits):
    """The last row answers what comes after the text; the other rows answer inside it."""
    return logits[-1].argmax().item()


def tokens_read(L, N, cached):
    """Without a cache each pass reads the whole text. With one, every token is read once.

    The last token written is never read.
    """
    return L + N - 1 if cached else sum(range(L, L + N))


def cache_bytes(n_layer, n_embd, length, size):
    """In each block a key and a value for each token, all heads together n_embd numbers each."""
    return 2 * n_layer * n_embd * length * size


def visible(start, T):
    """The triangle begins after the cached part: row i sees start + i + 1 positions."""
    return torch.ones(T, start + T, dtype=torch.bool).tril(start)
