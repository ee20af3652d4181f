"""The five numbers that make one GPT-2 different from another."""
from dataclasses import dataclass


@dataclass(frozen=True)
class GPT2Config:
    """The shape of a GPT-2. Raises ValueError for sizes no model can have."""

    n_layer: int
    n_head: int
    n_embd: int  # width of the residual stream; every head gets n_embd / n_head of it
    n_vocab: int = 50257
    n_ctx: int = 1024  # the most token ids the model can read at once

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not divisible by n_head {self.n_head}")

    @property
    def d_head(self) -> int:
        return self.n_embd // self.n_head


OFFICIAL_CONFIGS = {
    "gpt2": GPT2Config(n_layer=12, n_head=12, n_embd=768),
    "gpt2-medium": GPT2Config(n_layer=24, n_head=16, n_embd=1024),
    "gpt2-large": GPT2Config(n_layer=36, n_head=20, n_embd=1280),
    "gpt2-xl": GPT2Config(n_layer=48, n_head=25, n_embd=1600),
}
