"""What every model here is described by: its sizes."""
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Config:
    """The numbers that make one model of a family different from another.

    Raises ValueError for sizes no model can have.
    """

    n_layer: int
    n_head: int
    n_embd: int  # width of the residual stream; every head gets n_embd / n_head of it
    n_vocab: int  # ids that stand for a text
    n_ctx: int  # the most token ids the model can read at once
    n_padding: int = 0  # rows of the embedding after those: some files have them, nothing uses them

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.type is int):
            value, least = getattr(self, name), 0 if name == "n_padding" else 1
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be a whole number of at least {least}, not {value!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not divisible by n_head {self.n_head}")

    @property
    def d_head(self) -> int:
        return self.n_embd // self.n_head

    @property
    def kv_heads(self) -> int:
        """How many heads of keys and values there are: as many as of queries, unless they share."""
        return self.n_head
