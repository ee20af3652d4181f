"""How a GPT-2 is trained: initial weights, dropout, the optimizer, and the learning rate."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from model import GPT2


@dataclass(frozen=True)
class Recipe:
    """The settings of one model's training.

    It ends when either budget, of steps or of seconds, is used up.
    """

    learning_rate: float
    weight_decay: float
    batch: int  # blocks in a step, each as long as the model's context
    steps: float = math.inf
    seconds: float = math.inf
    dropout: float = 0.0
    kl_share: float = 0.9  # with a teacher, its share in the loss; the rest is the next token's


def least_memory(n_layer: int, n_embd: int, n_vocab: int, context: int, batch: int) -> int:
    """Return the bytes that training such a model takes at least.

    Of each weight in its matrices there are, in float32, the weight, its gradient, AdamW's two
    moments, and the best so far. Of each position of a batch the backward pass needs, in two bytes
    each where CUDA saves, the inputs of every matrix product (the residual stream's width, the MLP
    once more four times that), and the logits.
    """
    weights = 12 * n_layer * n_embd**2 + (n_vocab + context) * n_embd
    kept = n_layer * 7 * n_embd + n_vocab  # numbers for each position
    return 4 * 5 * weights + 2 * batch * context * kept


def initialise(model: GPT2, seed: int) -> GPT2:
    """Give the model GPT-2's initial weights: normal of standard deviation 0.02, biases 0, gains 1.

    The matrices that write into the residual stream start smaller by the square root of how many
    there are, so that the stream does not grow with depth (Radford et al. 2019, section 2.3). For a
    model on the CPU: a seed then means the same weights on every device.
    """
    generator = torch.Generator().manual_seed(seed)
    writers = 2 * model.config.n_layer
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            std = 0.02 / math.sqrt(writers) if name.endswith("c_proj.weight") else 0.02
            nn.init.normal_(weight, 0, std, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
    return model


def add_dropout(model: GPT2, p: float) -> None:
    """Make the model, in training mode, drop a share p of all that goes into the residual stream.

    That is the embeddings, and what each sub-layer adds. It is done from outside, by hooks: dropout
    belongs to training, and model/gpt2.py stays the forward pass that is read and run.
    """
    def drop_output(module, args, output):
        return F.dropout(output, p, module.training)

    def drop_input(module, args):
        return F.dropout(args[0], p, module.training), *args[1:]

    model.h[0].register_forward_pre_hook(drop_input)
    for block in model.h:
        for part in ("attn", "mlp"):
            block.get_submodule(part).register_forward_hook(drop_output)


def make_optimizer(model: GPT2, recipe: Recipe) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov & Hutter 2019).

    Only matrices decay: a bias or a gain pulled towards 0 would be no simpler.
    """
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    vectors = [weight for weight in model.parameters() if weight.dim() != 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay},
              {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95),
                             fused=model.wte.weight.is_cuda)


def rate_factor(share: float) -> float:
    """Return what the learning rate is multiplied by when `share` of the budget is used.

    It rises to 1 within 3 %, stays until 40 %, and falls in a line to 2 %. It goes by share and not
    by step, because nobody knows how many steps fit into ten minutes.
    """
    return max(0.02, min(share / 0.03, 1.0, (1 - share) / 0.6))
