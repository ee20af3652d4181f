"""The two losses that a training makes small, and how good a model is on text it has not seen."""
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model import Decoder


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log q(next token), in nats. logits: (B, T, n_vocab), targets: (B, T)"""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def distillation_loss(logits: Tensor, teacher_logits: Tensor, targets: Tensor,
                      kl_share: float) -> Tensor:
    """Return kl_share * KL(p || q) + (1 - kl_share) * next-token loss, means in nats.

    p is the teacher's distribution, q ours. A drafted token is accepted with probability
    sum(min(p, q)) = 1 - |p - q| / 2, and KL bounds that distance (Pinsker): the draft has to be
    like its target, right or wrong. The text itself says only one token of p at a time.
    logits, teacher_logits: (B, T, n_vocab), targets: (B, T)
    """
    log_q = logits.float().log_softmax(-1).flatten(0, 1)  # (B * T, n_vocab)
    log_p = teacher_logits.float().log_softmax(-1).flatten(0, 1)
    kl = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    return kl_share * kl + (1 - kl_share) * F.nll_loss(log_q, targets.flatten())


class DivergedError(ValueError):
    """A model computes NaN or infinity instead of logits."""


@dataclass(frozen=True)
class Evaluation:
    """Means over the positions of a text.

    The last two compare with a target, and are None without one.
    """

    tokens: int
    loss: float  # of the next token, in nats
    # sum(min(p, q)): how likely a drafted token is accepted at temperature 1
    acceptance: float | None = None
    # how often both find the same token most likely: the greedy acceptance
    agreement: float | None = None

    @property
    def score(self) -> float:
        """Return how good it is; higher is better.

        A draft is good when it is accepted, not when its own loss is low.
        """
        return -self.loss if self.acceptance is None else self.acceptance


@torch.no_grad()
def evaluate(model: Decoder, blocks: Tensor, target: Decoder | None = None,
             batch: int = 8) -> Evaluation:
    """Measure a model, or a draft against its target, on a text.

    blocks: (n, T + 1) ids; the last T of each are the next tokens of the first T.

    Raises DivergedError for a model that computes NaN or infinity.
    """
    was_training = model.training
    model.eval()
    loss = accepted = agreed = 0.0
    for some in blocks.split(batch):
        inputs, targets = split_block(some)
        logits = logits_of(model, inputs)
        loss += next_token_loss(logits, targets).item() * targets.numel()
        if target is not None:
            p, q = (x.float().softmax(-1) for x in (logits_of(target, inputs), logits))
            accepted += torch.minimum(p, q).sum().item()
            agreed += (p.argmax(-1) == q.argmax(-1)).sum().item()
    model.train(was_training)
    if not math.isfinite(loss + accepted):
        raise DivergedError(
            f"the {'target' if target is None else 'draft'} computes NaN or infinity instead of "
            "logits: its training went wrong; try another --seed, a larger --batch or a smaller "
            "model, with another --out")
    n = blocks[:, 1:].numel()
    if target is None:
        return Evaluation(n, loss / n)
    return Evaluation(n, loss / n, accepted / n, agreed / n)


def logits_of(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Return the logits (B, T, n_vocab) of (B, T) ids.

    On CUDA the matrix products are done in bfloat16, eight times as fast.
    """
    with torch.autocast("cuda", torch.bfloat16, enabled=inputs.is_cuda):
        return model(inputs)


def split_block(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Split (B, T + 1) ids into what is read, (B, T), and the token after each of them, (B, T)."""
    blocks = blocks.long()
    return blocks[:, :-1], blocks[:, 1:]


def to_blocks(ids: Tensor, context: int, most: int | None = None) -> Tensor:
    """Cut (N,) ids into (n, context + 1) blocks: each begins with the last token of the one before.

    most: about how many tokens at most; the blocks are then spread evenly over the text.
    """
    blocks = ids.unfold(0, context + 1, context)
    n = len(blocks) if most is None else min(len(blocks), max(1, most // context))
    return blocks[torch.linspace(0, len(blocks) - 1, n).long()]
