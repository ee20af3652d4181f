"""A target from scratch, then its draft: the order of events once the text is ready."""
import argparse
import math
from pathlib import Path

import torch

from decoding.cli.device import pick_device
from model import GPT2, GPT2Config
from weights.load import load_model
from weights.training.card import make_card
from weights.training.corpus import Corpus, vocabulary_file
from weights.training.folder import write_folder
from weights.training.loop import Trainer, read_checkpoint, save_checkpoint
from weights.training.objective import Evaluation, evaluate, to_blocks
from weights.training.progress import Progress, first_interrupt, in_words, minutes, say
from weights.training.recipe import Recipe, initialise

FOLDER = {"target": "large", "draft": "small"}
TARGET_SHARE = 0.6  # of the minutes; the draft gets the rest
SAMPLE = 4096  # held-out tokens that are measured again and again during training
FINAL_SAMPLE = 32768  # and once at the end
CHECKPOINT_SECONDS = 60
NOT_COMPARED = ("text", "held_out", "out", "resume")  # may differ when a run goes on; that the texts are the same, digests show


def train_pair(options: argparse.Namespace, corpus: Corpus, checkpoint: Path) -> None:
    """Make out/large, then out/small, its draft; with `resume`, from where the checkpoint says.

    Raises ValueError for a device that is not there, or the checkpoint of another run; KeyboardInterrupt after Ctrl-C,
    once the best weights so far and a checkpoint are written.
    """
    run = PairTraining(options, corpus, checkpoint)
    earlier = run.earlier() if options.resume else None
    say(f"{corpus.n_documents:,} documents, {len(corpus.train):,} tokens to train on, {len(corpus.held_out):,} held out, "
        f"a vocabulary of {run.n_vocab:,}; on {run.device.type}, {budget(options)}")
    if earlier is None or earlier["name"] == "target":
        run.make("target", None, earlier)
        earlier = None
    # Read back from its file, so that the draft learns from what it will serve: weights rounded to half precision.
    run.make("draft", load_model(run.folder("target"), run.device), earlier)
    checkpoint.unlink()
    say(f"done; try python -m decoding.generate --target {run.folder('target')} --draft {run.folder('draft')}")


class PairTraining:
    """What the two trainings of one call share."""

    def __init__(self, options: argparse.Namespace, corpus: Corpus, checkpoint: Path) -> None:
        self.options, self.corpus, self.checkpoint = options, corpus, checkpoint
        self.device = torch.device(pick_device(options.device))
        self.n_vocab = len(corpus.vocabulary) + 1
        self.ids = torch.frombuffer(corpus.train, dtype=torch.int32).to(self.device)
        self.held_out = torch.frombuffer(corpus.held_out, dtype=torch.int32).to(self.device)
        self.settings = {key: value for key, value in vars(options).items() if key not in NOT_COMPARED}
        self.settings |= {"device": self.device.type, "digests": corpus.digests}

    def folder(self, name: str) -> Path:
        return self.options.out / FOLDER[name]

    def earlier(self) -> dict:
        """The checkpoint of the run that is to go on. Raises ValueError if that was another run."""
        earlier, out = read_checkpoint(self.checkpoint), self.options.out
        for key, value in self.settings.items():
            before = earlier["settings"][key]
            if before != value and key == "digests":
                raise ValueError(f"the run in {out} was begun with another text than {self.options.text}")
            if before != value:
                raise ValueError(f"the run in {out} was begun with {as_option(key, before)}, not {as_option(key, value)}; "
                                 "--resume goes on with the same options")
        return earlier

    def make(self, name: str, target: GPT2 | None, earlier: dict | None) -> None:
        """Train one model and write its folder. Raises KeyboardInterrupt if it was asked to stop."""
        trainer = self.trainer(name, target)
        if earlier is not None:
            trainer.restore(earlier["trainer"])
        stopped = self.train(trainer, name)
        self.write(trainer, name, trainer.best.held_out)
        if stopped:
            say(f"the best {name} so far is in {self.folder(name)}")
            raise KeyboardInterrupt
        result = self.final_measurement(name, target)
        self.write(trainer, name, result)
        say(f"{name} in {self.folder(name)}: {in_words(result)}, over {result.tokens:,} tokens")

    def trainer(self, name: str, target: GPT2 | None) -> Trainer:
        """A new model of the size that was asked for, and what trains it."""
        options = self.options
        n_layer, n_head, n_embd = getattr(options, name)
        model = initialise(GPT2(GPT2Config(n_layer, n_head, n_embd, self.n_vocab, options.context)), options.seed)
        sample = to_blocks(self.held_out, options.context, SAMPLE)
        return Trainer(model.to(self.device), self.ids, sample, make_recipe(options, name), target, options.seed)

    def train(self, trainer: Trainer, name: str) -> bool:
        """Use up the budget, with a checkpoint first, every minute, and last. Returns whether Ctrl-C was pressed."""
        progress, saved = Progress(name), -math.inf
        with first_interrupt() as pressed:
            while trainer.share < 1:
                if trainer.seconds - saved >= CHECKPOINT_SECONDS:
                    self.save(trainer, name)
                    saved = trainer.seconds
                trainer.advance()
                progress.show(trainer)
                if pressed():
                    break
            self.save(trainer, name)
            return pressed()

    def save(self, trainer: Trainer, name: str) -> None:
        save_checkpoint({"settings": self.settings, "name": name, "trainer": trainer.state()}, self.checkpoint)

    def write(self, trainer: Trainer, name: str, result: Evaluation) -> None:
        """Write the model's folder, with the best weights so far."""
        config, folder = trainer.model.config, self.folder(name)
        card = make_card(f"{folder.resolve().parent.name}/{folder.name}", config, self.corpus, trainer, result)
        write_folder(folder, config, trainer.weights, vocabulary_file(self.corpus.vocabulary), card)

    def final_measurement(self, name: str, target: GPT2 | None) -> Evaluation:
        """How good the model in the folder is, on more of the held-out text than there was time for during training."""
        model = load_model(self.folder(name), self.device)
        return evaluate(model, to_blocks(self.held_out, self.options.context, FINAL_SAMPLE), target, self.options.batch)


def make_recipe(options: argparse.Namespace, name: str) -> Recipe:
    """The settings of the target's or the draft's training, with its share of the minutes as its budget."""
    seconds = math.inf if options.minutes is None else 60 * options.minutes
    both = {"batch": options.batch, "steps": math.inf if options.steps is None else options.steps}
    if name == "target":
        return Recipe(learning_rate=2e-3, weight_decay=0.1, seconds=TARGET_SHARE * seconds, dropout=options.dropout, **both)
    return Recipe(learning_rate=3e-3, weight_decay=0.01, seconds=(1 - TARGET_SHARE) * seconds, **both)


def budget(options: argparse.Namespace) -> str:
    """How long it will take, in words."""
    if options.steps is not None:
        return f"{options.steps} steps for each model"
    target, draft = (minutes(make_recipe(options, name).seconds) for name in FOLDER)
    return f"{target} minutes for the target, {draft} for the draft"


def as_option(key: str, value: object) -> str:
    """What was typed: ("draft", (2, 8, 256)) -> "--draft 2,8,256" """
    if value is None:
        return f"no --{key}"
    return f"--{key} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
