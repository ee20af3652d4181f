"""Faster output heads. All compute x @ wte.T and leave wte, the input embedding, unchanged.

nn.Linear's way, `model.decoder.TiedHead`, is slow on many processors. `model.fast.layouts` times
them.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.decoder import TiedHead
from model.fast.onednn import convolve


class TurnedHead(TiedHead):
    """For several tokens the embedding is the left factor; the product is then turned back."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, n_embd)
        if len(rows) < 2:
            logits = F.linear(rows, wte)  # (N, n_vocab)
        else:
            logits = F.linear(wte, rows).T.contiguous()  # (N, n_vocab)
        return logits.unflatten(0, x.shape[:-1])  # (B, T, n_vocab)

    def __deepcopy__(self, memo: dict) -> TiedHead:
        return TiedHead()


class OneTokenHead(TurnedHead):
    """For one token oneDNN's linear layer, which would rearrange the embedding for more.

    For inference only.
    """

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() != 1:
            return super().forward(x, wte)
        return torch.ops.mkldnn._linear_pointwise(x, wte, None, "none", [], "")  # (1, 1, n_vocab)


class ConvolvedHead(OneTokenHead):
    """For several tokens oneDNN's convolution: the embedding is the image, and the tokens are the
    weights, since few rows are quickly rearranged. Pays off for large vocabularies."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() < 2:
            return super().forward(x, wte)
        weight = x.flatten(0, -2)[:, :, None, None]
        logits = convolve(wte, weight, None).flatten(0, 2)  # (n_vocab, N)
        return logits.T.contiguous().unflatten(0, x.shape[:-1])  # (B, T, n_vocab)
