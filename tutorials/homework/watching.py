"""A model and a generator that keep what homework does with them."""
from itertools import takewhile

import torch
from torch import Tensor

from decoding.proof.toys import HashModel, TextCache
from decoding.random import draw, uniform


class RowsDrawnFrom:
    """A generator that keeps the rows it is asked to draw from."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.rows: list[Tensor] = []

    def draw(self, probs: Tensor) -> Tensor:
        self.rows += probs.double().reshape(-1, probs.shape[-1])
        return draw(probs, self.generator)

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        return uniform(shape, self.generator, torch.device("cpu"))


class Reader:
    """A model that counts what it reads again although its cache held it.

    A pass for the prompt alone, and one that reads the prompt's last token again, are allowed.

    texts: at each pass, all that the model has read, the new tokens included.
    """

    def __init__(self, model: HashModel) -> None:
        self.model, self.config, self.new_cache = model, model.config, model.new_cache
        self.again = 0
        self.texts: list[list[int]] = []

    @property
    def passes(self) -> int:
        return len(self.texts)

    def forward(self, tokens: Tensor, cache: TextCache | None = None,
                last: int | None = None) -> Tensor:
        before = [] if cache is None else list(cache.ids)
        text = before + tokens[0].tolist()
        if self.passes >= 2:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1],
                                            zip(text, self.texts[-1])))
            self.again += max(0, same - len(before))
        self.texts.append(text)
        return self.model.forward(tokens, cache, last=last)
