"""Other ways to compute the output head: the product with the embedding, which has to stay as it is for looking tokens up.

nn.Linear's way, `model.gpt2.TiedHead`, is slow on many processors. `model.linear` times them all.
"""
import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt2 import TiedHead
from model.onednn import convolve


class TurnedHead(TiedHead):
    """With more than one row the embedding stands on the left of the product, which is then turned back."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, n_embd)
        logits = F.linear(rows, wte) if len(rows) < 2 else F.linear(wte, rows).T.contiguous()  # (N, n_vocab)
        return logits.unflatten(0, x.shape[:-1])  # (B, T, n_vocab)

    def __deepcopy__(self, memo: dict) -> TiedHead:
        return TiedHead()


class OneRowHead(TurnedHead):
    """With one row oneDNN's linear layer, which would rearrange the embedding for more. For inference only."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() != 1:
            return super().forward(x, wte)
        return torch.ops.mkldnn._linear_pointwise(x, wte, None, "none", [], "")  # (1, 1, n_vocab)


class ConvolvedHead(OneRowHead):
    """With more than one row oneDNN's convolution: the embedding is the image, and the rows are the weights, since few
    rows are quickly rearranged. Pays off for large vocabularies."""

    def forward(self, x: Tensor, wte: Tensor) -> Tensor:
        if x.shape[:-1].numel() < 2:
            return super().forward(x, wte)
        logits = convolve(wte, x.flatten(0, -2)[:, :, None, None], None).flatten(0, 2)  # (n_vocab, N)
        return logits.T.contiguous().unflatten(0, x.shape[:-1])  # (B, T, n_vocab)
