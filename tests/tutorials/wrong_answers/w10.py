"""Plausible wrong answers to the exercises of notebook 10."""
import torch


def three_blocks(weight, n_head):
    """"The shape is the same, so it is in order already.\""""
    return weight.clone()


def seen_in_the_window(T, window):
    """Itself, and `window` more."""
    back = torch.arange(T)[:, None] - torch.arange(T)
    return (back >= 0) & (back <= window)


def how_slow(theta, d_head, factor, n_before):
    """All alike."""
    return torch.full((d_head // 2,), 1 / factor)
