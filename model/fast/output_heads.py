"""Faster output heads. All compute x @ wte.T and leave wte, the input embedding, unchanged.

`model.decoder.TiedHead` multiplies as nn.Linear does, which is slow on many processors.
`model.fast.layouts` picks one.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.decoder import TiedHead


class TurnedHead(TiedHead):
    """Multiplies the other way round for several tokens, wte @ x.T, and turns the product back."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, n_embd)
        if len(rows) < 2:
            logits = F.linear(rows, wte)  # (N, n_vocab)
        else:
            logits = F.linear(wte, rows).T.contiguous()  # (N, n_vocab)
        return logits.unflatten(0, x.shape[:-1])  # (B, T, n_vocab)

    def __deepcopy__(self, memo: dict) -> TiedHead:
        """Return a plain head: a copy of a model can be converted, moved and trained."""
        return TiedHead()


class OneTokenHead(TurnedHead):
    """Uses oneDNN's linear layer for one token. For more it is slower, as the weight is not packed.

    For inference only.
    """

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() != 1:
            return super().forward(x, wte)
        return torch.ops.mkldnn._linear_pointwise(x, wte, None, "none", [], "")  # (1, 1, n_vocab)


class ConvolvedHead(OneTokenHead):
    """Uses oneDNN's convolution for several tokens. Pays off for large vocabularies.

    A product is a convolution of size 1. Here the embedding's rows are the pixels, and the tokens
    the weights, because oneDNN rearranges the weights, and a few tokens are quickly rearranged.
    """

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() < 2:
            return super().forward(x, wte)
        image = wte[None, :, None].permute(0, 3, 1, 2)  # (1, n_embd, n_vocab, 1), wte's memory
        weight = x.flatten(0, -2)[:, :, None, None]  # (N, n_embd, 1, 1)
        logits = torch.ops.mkldnn._convolution_pointwise(
            image, weight, None, [0, 0], [1, 1], [1, 1], 1, "none", [], "")  # (1, N, n_vocab, 1)
        return logits[0, :, :, 0].contiguous().unflatten(0, x.shape[:-1])  # (B, T, n_vocab)
