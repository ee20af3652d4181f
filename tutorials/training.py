"""Trains the small models of notebook 9, by the project's own trainer and with its own options."""
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from model import GPT2, GPT2Config
from weights.train import parse
from weights.training.card import make_card
from weights.training.corpus import prepare, to_tokenizer, vocabulary_file
from weights.training.folder import write_folder
from weights.training.loop import Trainer
from weights.training.objective import logits_of, split_block, to_blocks
from weights.training.pair import make_recipe
from weights.training.progress import in_words
from weights.training.recipe import initialise

Loss = Callable[[Tensor, Tensor], Tensor]  # p and q, (B, T, n_vocab) each -> (B, T)
SEPARATOR = "<|endoftext|>"


class Workshop:
    """A text made ready for training, and what trains and writes models of it.

    folder: where the files go.
    page, rest: documents to train on, and others to measure on.
    command: the options of `python -m weights.train`.
    """

    def __init__(self, folder: Path, page: list[str], rest: list[str], command: str) -> None:
        self.folder, self.options = folder, parse(shlex.split(command))
        for name, part in ((self.options.text, page), (self.options.held_out, rest)):
            (folder / name).write_text(SEPARATOR.join(part), encoding="utf-8")
        self.corpus = prepare(folder / self.options.text, folder / self.options.held_out,
                              self.options.vocab, self.options.context)
        self.tokenizer = to_tokenizer(self.corpus.vocabulary)
        self.n_vocab = len(self.corpus.vocabulary) + 1  # and the end-of-text
        self.ids = torch.tensor(self.corpus.train)  # (N,)
        self.held_out = to_blocks(torch.tensor(self.corpus.held_out), self.options.context)

    def train(self, name: str, seed: int = 0, teacher: GPT2 | None = None,
              compare: Loss | None = None, **changes) -> Trainer:
        """Train the "target" or the "draft" to the end.

        teacher: the target of a draft.
        compare: the loss of a draft; without it, the project's own.
        changes: of the usual recipe.
        """
        n_layer, n_head, n_embd = getattr(self.options, name)
        config = GPT2Config(n_layer, n_head, n_embd, self.n_vocab, self.options.context)
        recipe = replace(make_recipe(self.options, name), **changes)
        model = initialise(GPT2(config), seed)
        arguments = (model, self.ids, self.held_out, recipe, teacher, seed)
        trainer = Trainer(*arguments) if compare is None else Comparing(compare, *arguments)
        while trainer.share < 1:
            trainer.advance()
        return trainer

    def write(self, trainers: dict[str, Trainer]) -> Path:
        """Write a folder for each model, with its best weights; return the folder around them."""
        pair = self.folder / self.options.out
        pair.mkdir()
        for name, trainer in trainers.items():
            config = trainer.model.config
            card = make_card(f"{self.options.out}/{name}", config, self.corpus, trainer,
                             trainer.best.held_out)
            write_folder(pair / name, config, trainer.weights,
                         vocabulary_file(self.corpus.vocabulary), card)
        return pair


class Comparing(Trainer):
    """A Trainer for a draft whose loss compares its distribution q with the target's p."""

    def __init__(self, compare: Loss, *arguments) -> None:
        self.compare = compare
        super().__init__(*arguments)

    def loss(self, blocks: Tensor) -> Tensor:
        inputs, _ = split_block(blocks)
        q = logits_of(self.forward, inputs).float().softmax(-1)
        assert self.teacher is not None, "a loss that compares needs a teacher"
        with torch.no_grad():
            p = logits_of(self.teacher, inputs).float().softmax(-1)
        return self.compare(p, q).mean()


def best_of(trainer: Trainer) -> GPT2:
    """Return the model with the best weights it has had."""
    trainer.model.load_state_dict(trainer.weights)
    return trainer.model.eval().requires_grad_(False)


def report(name: str, trainer: Trainer) -> None:
    """Print how good a model is after its last step, on the held-out text."""
    print(f"{name:24} after {trainer.step} steps: {in_words(trainer.curve[-1].held_out)}")
