"""The training loop, a step at a time, and all that it takes to go on exactly where it was."""
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from model import GPT2, Decoder
from weights.training.objective import (
    Evaluation,
    distillation_loss,
    evaluate,
    logits_of,
    next_token_loss,
    split_block,
)
from weights.training.recipe import Recipe, add_dropout, make_optimizer, rate_factor

MEASUREMENTS = 20  # in a whole training, evenly spread, besides the one of the untrained model


@dataclass(frozen=True)
class Measurement:
    """A point of the learning curve."""

    step: int
    seconds: float
    share: float  # of the budget
    train_loss: float | None  # of the last batch, with dropout, for a draft with the teacher's part
    held_out: Evaluation


class Trainer:
    """A model that is being trained: `advance` does one step, `weights` are the best so far.

    ids: (N,) to train on.
    held_out: (n, context + 1) blocks to measure on.
    teacher: the target, if the model is its draft.
    clock: returns seconds, from wherever it likes.
    """

    def __init__(self, model: GPT2, ids: Tensor, held_out: Tensor, recipe: Recipe,
                 teacher: Decoder | None = None, seed: int = 0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.model, self.teacher, self.recipe, self.clock = model.train(), teacher, recipe, clock
        self.ids, self.held_out = ids, held_out
        self.seed = seed
        if recipe.dropout:
            add_dropout(model, recipe.dropout)
        self.optimizer = make_optimizer(model, recipe)
        self.forward = compiled(model)
        self.teacher_forward = None if teacher is None else compiled(teacher)
        self.step, self.seconds = 0, 0.0
        self.curve: list[Measurement] = []
        self.weights: dict[str, Tensor] = {}
        self.last_loss: Tensor | None = None
        if ids.is_cuda:  # compile before the clock starts
            self.loss(ids.new_zeros(recipe.batch, model.config.n_ctx + 1)).backward()
            self.optimizer.zero_grad()
        # Picks the blocks; on the CPU, so that they are the same for every device.
        self.random = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)  # what is dropped: F.dropout takes no generator
        self.last_time = clock()

    @property
    def share(self) -> float:
        """Return how much of the budget is used; 1 is the end."""
        return max(self.step / self.recipe.steps, self.seconds / self.recipe.seconds)

    @property
    def best(self) -> Measurement:
        """Return the measurement of `weights`."""
        return max(self.curve, key=lambda point: point.held_out.score)

    def advance(self) -> None:
        """Do one step, and a measurement if it is time for one."""
        if not self.curve:
            self.measure()
        self.learn()
        self.step += 1
        now = self.clock()
        self.seconds, self.last_time = self.seconds + now - self.last_time, now
        if int(self.share * MEASUREMENTS) > int(self.curve[-1].share * MEASUREMENTS):
            self.measure()

    def learn(self) -> None:
        """Move the weights a little against the gradient of the loss on some random blocks."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * rate_factor(self.share)
        loss = self.loss(self.random_blocks())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.last_loss = loss.detach()

    def random_blocks(self) -> Tensor:
        """Return (batch, context + 1) ids from anywhere in the text."""
        context = self.model.config.n_ctx
        starts = torch.randint(len(self.ids) - context, (self.recipe.batch, 1),
                               generator=self.random)
        return self.ids[(starts + torch.arange(context + 1)).to(self.ids.device)]

    def loss(self, blocks: Tensor) -> Tensor:
        """Return the loss on (B, context + 1) ids."""
        inputs, targets = split_block(blocks)
        logits = logits_of(self.forward, inputs)
        if self.teacher_forward is None:
            return next_token_loss(logits, targets)
        with torch.no_grad():
            teacher_logits = logits_of(self.teacher_forward, inputs)
        return distillation_loss(logits, teacher_logits, targets, self.recipe.kl_share)

    def measure(self) -> None:
        """Add a point to the curve, and keep the weights if they are the best so far."""
        held_out = evaluate(self.model, self.held_out, self.teacher, self.recipe.batch)
        train_loss = None if self.last_loss is None else self.last_loss.item()
        self.curve.append(Measurement(self.step, self.seconds, self.share, train_loss, held_out))
        if self.best is self.curve[-1]:
            self.weights = {name: weight.to("cpu", copy=True)
                            for name, weight in self.model.state_dict().items()}

    def state(self) -> dict:
        """Return all that changes during training."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                "step": self.step, "seconds": self.seconds, "last_loss": self.last_loss,
                "curve": [asdict(point) for point in self.curve], "weights": self.weights,
                "random": self.random.get_state(),
                "dropped": device_random(self.ids.device).get_rng_state()}

    def restore(self, state: dict) -> None:
        """Go on from what `state` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.last_loss = state["last_loss"]
        self.curve = [Measurement(**point | {"held_out": Evaluation(**point["held_out"])})
                      for point in state["curve"]]
        self.weights = state["weights"]
        self.random.set_state(state["random"])
        device_random(self.ids.device).set_rng_state(state["dropped"])


def compiled(model: Decoder) -> Callable[[Tensor], Tensor]:
    """Return the model; on CUDA, where Triton is installed, as one compiled function.

    That makes far better use of a small model.
    """
    if model.device.type != "cuda" or find_spec("triton") is None:
        return model
    return torch.compile(model)


def device_random(device: torch.device):
    """Return the module that has the global random state of a device."""
    return torch.random if device.type == "cpu" else getattr(torch, device.type)
