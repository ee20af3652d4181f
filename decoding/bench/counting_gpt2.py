"""A GPT-2 of official size to time without official weights; its right answer is known: it counts.

After token id i it predicts i + 1 (mod n_vocab).

Token ids sit on circles: embedding e(i) = [cos(w_j i), sin(w_j i)], so that "the next id" is one
rotation. The MLP of the first block applies it (a GELU far in its linear range); the other blocks
add a little noise that depends on the context.
"""
import json
import math
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from decoding.bench.sizes import SIZES
from weights.output import replacing

LIFT = 12.0  # gelu(z + 12) is z + 12 for |z| < 6


def write_checkpoint(folder: str | Path, size: str, *, spoil: float = 0.0, sharpness: float = 3.0,
                     noise: float = 0.3, seed: int = 0, dtype: torch.dtype = torch.float32,
                     prefix: bool = False, buffers: bool = True) -> None:
    """Write config.json and model.safetensors of a counting GPT-2, laid out as the official files.

    spoil: roughly the share of ids after which the model counts wrong; pairs of ids are swapped.
    sharpness: the winning logit in units of log(n_vocab); 3 is almost certain, 1.2 is a soft
        distribution to sample from.
    noise: how much the blocks add that has nothing to do with counting.
    seed: of the noise and of what is spoilt.
    prefix: write the keys with "transformer.".
    buffers: write the mask buffers h.N.attn.bias.

    Raises OSError if the disk does not take them; old files of these names then stay.
    """
    n_layer, n_head, n_embd, n_vocab, n_ctx = SIZES[size]
    generator = torch.Generator().manual_seed(seed + 1)
    wte, step = circles(n_embd, n_vocab, spoil, generator)
    gain = sharpness * math.log(n_vocab) / math.sqrt(n_embd * (n_embd // 2))
    state = {
        "wte.weight": wte,
        "wpe.weight": normal(n_ctx, n_embd, std=0.01, generator=generator),
        "ln_f.weight": torch.full((n_embd,), gain),
        "ln_f.bias": torch.zeros(n_embd),
    }
    for n in range(n_layer):
        block = noisy_block(n_embd, noise, generator)
        state |= {f"h.{n}.{name}": weight for name, weight in block.items()}
    count_up(state, step)
    state = {name: weight.to(dtype).contiguous() for name, weight in state.items()}
    if buffers:
        mask = torch.ones(n_ctx, n_ctx).tril().view(1, 1, n_ctx, n_ctx)
        state |= {f"h.{n}.attn.bias": mask.clone() for n in range(n_layer)}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    start = "transformer." if prefix else ""
    named = {start + name: weight for name, weight in state.items()}
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "n_layer": n_layer, "n_head": n_head, "n_embd": n_embd, "vocab_size": n_vocab,
        "n_positions": n_ctx, "n_ctx": n_ctx,
        "bos_token_id": n_vocab - 1, "eos_token_id": n_vocab - 1,
    }
    with (replacing(folder / "config.json") as description,
          replacing(folder / "model.safetensors") as weights):
        description.write_text(json.dumps(config, indent=2), encoding="utf-8")
        try:
            save_file(named, weights, {"format": "pt"})
        except SafetensorError as error:  # what it makes of a full disk
            raise OSError(f"{weights}: {error}") from error


def circles(n_embd: int, n_vocab: int, spoil: float,
            generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the token embeddings (n_vocab, n_embd), and the matrix that counts one up.

    A LayerNorm's output times that matrix is what has to be added to the stream. The circles are
    the same for all models of one width and vocabulary, so that a spoilt draft agrees with its
    target elsewhere.
    """
    half = n_embd // 2
    always = torch.Generator().manual_seed(1234)
    steps = torch.randint(1, n_vocab, (half,), generator=always, dtype=torch.float64)
    omega = steps * (2 * math.pi / n_vocab)  # n_vocab steps are whole turns: the last id leads to 0
    number = torch.arange(n_vocab, dtype=torch.float64)  # what each id counts as
    if spoil > 0:
        swapped = torch.randperm(n_vocab, generator=generator)[:2 * round(spoil * n_vocab / 4)]
        a, b = swapped.chunk(2)
        number[a], number[b] = number[b].clone(), number[a].clone()
    angle = number[:, None] * omega
    wte = torch.cat([angle.cos(), angle.sin()], 1)
    wte = wte - wte.mean(1, keepdim=True)
    cos, sin = omega.cos().diag(), omega.sin().diag()
    turn = torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])  # row vector @ turn
    # LayerNorm rescales the embeddings, all of nearly the same norm; times their spread undoes it.
    step = (turn - torch.eye(n_embd, dtype=torch.float64)) * wte.std(1, unbiased=False).mean()
    return wte.float(), step.float()


def noisy_block(n_embd: int, noise: float, generator: torch.Generator) -> dict[str, Tensor]:
    """Return one block of random weights, its matrices [in, out] as in the official files."""
    block = {}
    for name in ("ln_1", "ln_2"):
        block[f"{name}.weight"], block[f"{name}.bias"] = torch.ones(n_embd), torch.zeros(n_embd)
    for name, n_in, n_out in (("attn.c_attn", 1, 3), ("mlp.c_fc", 1, 4)):
        shape = n_in * n_embd, n_out * n_embd
        block[f"{name}.weight"] = normal(*shape, std=0.02, generator=generator)
        block[f"{name}.bias"] = normal(n_out * n_embd, std=0.02, generator=generator)
    for name, n_in, n_out in (("attn.c_proj", 1, 1), ("mlp.c_proj", 4, 1)):  # write into the stream
        shape = n_in * n_embd, n_out * n_embd
        block[f"{name}.weight"] = normal(*shape, std=0.02 * noise, generator=generator)
        block[f"{name}.bias"] = torch.zeros(n_out * n_embd)
    return block


def count_up(state: dict[str, Tensor], step: Tensor) -> None:
    """Make the first n_embd neurons of block 0's MLP add x @ step to the residual stream.

    LIFT moves them into GELU's linear range; the bias of the second matrix takes it off again.
    """
    n_embd = len(step)
    state["h.0.mlp.c_fc.weight"][:, :n_embd] = torch.eye(n_embd)
    state["h.0.mlp.c_fc.bias"][:n_embd] = LIFT
    state["h.0.mlp.c_proj.weight"][:n_embd] = step
    state["h.0.mlp.c_proj.bias"] = -LIFT * step.sum(0)


def normal(*shape: int, std: float, generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator) * std
