"""Solutions to the exercises of notebook 10."""
import math

import torch


def three_blocks(weight, n_head):
    """Cut into heads, each of them into q, k and v; then the second cut comes first."""
    return weight.unflatten(0, (n_head, 3, -1)).transpose(0, 1).flatten(0, 2)


def seen_in_the_window(T, window):
    """How far back column j is, seen from row i: from 0, the token itself, to window - 1."""
    back = torch.arange(T)[:, None] - torch.arange(T)
    return (back >= 0) & (back < window)


def how_slow(theta, d_head, factor, n_before):
    """How often a pair turns in n_before tokens says how much of its pace is kept."""
    frequency = theta ** (-torch.arange(0, d_head, 2).double() / d_head)
    turns = n_before * frequency / (2 * math.pi)
    kept = ((turns - 1) / 3).clamp(0, 1)
    return kept + (1 - kept) / factor
