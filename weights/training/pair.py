"""A target from scratch, then its draft: the order of events once the text is ready."""
import argparse
import math
from pathlib import Path

import torch

from model import GPT2, Decoder, GPT2Config
from weights.console import pick_device
from weights.load import load_model
from weights.memory import check_memory
from weights.terminal import one_line, tell
from weights.training.card import make_card
from weights.training.corpus import Corpus, vocabulary_file
from weights.training.folder import write_folder
from weights.training.loop import Trainer
from weights.training.objective import DivergedError, Evaluation, evaluate, to_blocks
from weights.training.progress import Progress, first_interrupt, in_words, minutes
from weights.training.recipe import Recipe, initialise, least_memory
from weights.training.resume import expecting_a_checkpoint, read_checkpoint, save_checkpoint

FOLDER = {"target": "large", "draft": "small"}
TARGET_SHARE = 0.6  # of the minutes; the draft gets the rest
SAMPLE = 4096  # held-out tokens that are measured again and again during training
FINAL_SAMPLE = 32768  # and once at the end
CHECKPOINT_SECONDS = 60
# These options may differ when a run goes on; digests show that the texts are the same.
NOT_COMPARED = ("text", "held_out", "out", "resume")


def train_pair(options: argparse.Namespace, corpus: Corpus, checkpoint: Path) -> None:
    """Make out/large, then out/small, its draft; with `resume`, from where the checkpoint says.

    Raises ValueError for a device that is not there, or the checkpoint of another run;
    KeyboardInterrupt after Ctrl-C, once the best weights so far and a checkpoint are written.
    """
    run = PairTraining(options, corpus, checkpoint)
    run.check_memory()
    earlier = run.earlier() if options.resume else None
    tell(f"{corpus.n_documents:,} documents, {len(corpus.train):,} tokens to train on, "
         f"{len(corpus.held_out):,} held out, a vocabulary of {run.n_vocab:,}; "
         f"on {run.device.type}, {budget(options)}")
    if earlier is None or earlier["name"] == "target":
        run.make("target", None, earlier)
        earlier = None
    # Read back from its file, so that the draft learns from what it will serve, in half precision.
    run.make("draft", load_model(run.folder("target"), run.device), earlier)
    checkpoint.unlink()
    tell(f"done; try python -m decoding.generate --target {run.folder('target')} "
         f"--draft {run.folder('draft')}")


class PairTraining:
    """The two trainings of one call: the target's, then its draft's."""

    def __init__(self, options: argparse.Namespace, corpus: Corpus, checkpoint: Path) -> None:
        self.options, self.corpus, self.checkpoint = options, corpus, checkpoint
        self.device = torch.device(pick_device(options.device))
        self.n_vocab = len(corpus.vocabulary) + 1
        self.ids = torch.frombuffer(corpus.train, dtype=torch.int32).to(self.device)
        self.held_out = torch.frombuffer(corpus.held_out, dtype=torch.int32).to(self.device)
        self.settings = {key: value for key, value in vars(options).items()
                         if key not in NOT_COMPARED}
        self.settings |= {"device": self.device.type, "digests": corpus.digests}

    def check_memory(self) -> None:
        """Raise ValueError for models or batches that this machine can never hold."""
        options = self.options
        for name in FOLDER:
            n_layer, _, n_embd = getattr(options, name)
            needed = least_memory(n_layer, n_embd, self.n_vocab, options.context, options.batch)
            what = f"--{name} with --batch {options.batch} and --context {options.context}"
            check_memory(needed, what, self.device.type)

    def folder(self, name: str) -> Path:
        return self.options.out / FOLDER[name]

    def earlier(self) -> dict:
        """Return the checkpoint of the run that is to go on.

        Raises ValueError if that was another run.
        """
        earlier, out = read_checkpoint(self.checkpoint), self.options.out
        with expecting_a_checkpoint(self.checkpoint):
            begun = {key: earlier["settings"][key] for key in self.settings}
            if earlier["name"] not in FOLDER:
                raise KeyError(earlier["name"])
        for key, value in self.settings.items():
            before = begun[key]
            if before != value and key == "digests":
                raise ValueError(f"the run in {out} was begun with another text than "
                                 f"{self.options.text}")
            if before != value:
                raise ValueError(f"the run in {out} was begun with {as_option(key, before)}, "
                                 f"not {as_option(key, value)}; "
                                 "--resume goes on with the same options")
        return earlier

    def make(self, name: str, target: Decoder | None, earlier: dict | None) -> None:
        """Train a model and write its folder.

        Raises KeyboardInterrupt if it was asked to stop, DivergedError if the training went wrong.
        """
        trainer = self.trainer(name, target)
        if earlier is not None:
            with expecting_a_checkpoint(self.checkpoint):
                trainer.restore(earlier["trainer"])
        try:
            stopped = self.train(trainer, name)
        except (OSError, DivergedError):
            # A full disk may still have room for the weights, a tenth of a checkpoint.
            if trainer.curve:
                self.write_best(trainer, name)
            raise
        if stopped:
            self.write_best(trainer, name)
            raise KeyboardInterrupt
        self.write(trainer, name, trainer.best.held_out)
        result = self.final_measurement(name, target)
        self.write(trainer, name, result)
        tell(f"{name} in {self.folder(name)}: {in_words(result)}, over {result.tokens:,} tokens")

    def write_best(self, trainer: Trainer, name: str) -> None:
        """Write the model of a training that ends too soon, and say so."""
        self.write(trainer, name, trainer.best.held_out)
        tell(f"the best {name} so far is in {self.folder(name)}")

    def trainer(self, name: str, target: Decoder | None) -> Trainer:
        """Return what trains a new model of the size that was asked for."""
        options = self.options
        n_layer, n_head, n_embd = getattr(options, name)
        config = GPT2Config(n_layer, n_head, n_embd, self.n_vocab, options.context)
        model = initialise(GPT2(config), options.seed).to(self.device)
        sample = to_blocks(self.held_out, options.context, SAMPLE)
        return Trainer(model, self.ids, sample, make_recipe(options, name), target, options.seed)

    def train(self, trainer: Trainer, name: str) -> bool:
        """Train until the budget is used up; return whether Ctrl-C ended it.

        A checkpoint is written first, every minute, and last. It is taken away again if not even
        the first step of the target succeeds, so that the same folder can be used for another try.
        """
        progress, saved = Progress(name), -math.inf
        with first_interrupt() as pressed:
            while trainer.share < 1:
                if trainer.seconds - saved >= CHECKPOINT_SECONDS:
                    self.save(trainer, name)
                    saved = trainer.seconds
                try:
                    trainer.advance()
                except Exception:
                    if trainer.step == 0 and trainer.teacher is None:
                        self.checkpoint.unlink()
                    raise
                progress.show(trainer)
                if pressed():
                    break
            self.save(trainer, name)
            return pressed()

    def save(self, trainer: Trainer, name: str) -> None:
        """Write a checkpoint."""
        contents = {"settings": self.settings, "name": name, "trainer": trainer.state()}
        save_checkpoint(contents, self.checkpoint)

    def write(self, trainer: Trainer, name: str, result: Evaluation) -> None:
        """Write the model's folder, with the best weights so far."""
        config, folder = trainer.model.config, self.folder(name)
        title = one_line(f"{folder.resolve().parent.name}/{folder.name}")
        card = make_card(title, config, self.corpus, trainer, result)
        vocabulary = vocabulary_file(self.corpus.vocabulary)
        write_folder(folder, config, trainer.weights, vocabulary, card)

    def final_measurement(self, name: str, target: Decoder | None) -> Evaluation:
        """Measure the model in the folder, on more of the held-out text than during training."""
        model = load_model(self.folder(name), self.device)
        sample = to_blocks(self.held_out, self.options.context, FINAL_SAMPLE)
        return evaluate(model, sample, target, self.options.batch)


def make_recipe(options: argparse.Namespace, name: str) -> Recipe:
    """Return the settings of one model's training, with its share of the minutes."""
    seconds = math.inf if options.minutes is None else 60 * options.minutes
    steps = math.inf if options.steps is None else options.steps
    if name == "target":
        return Recipe(learning_rate=2e-3, weight_decay=0.1, batch=options.batch, steps=steps,
                      seconds=TARGET_SHARE * seconds, dropout=options.dropout)
    return Recipe(learning_rate=3e-3, weight_decay=0.01, batch=options.batch, steps=steps,
                  seconds=(1 - TARGET_SHARE) * seconds)


def budget(options: argparse.Namespace) -> str:
    """Return in words how long it will take."""
    if options.steps is not None:
        return f"{options.steps} steps for each model"
    target, draft = (minutes(make_recipe(options, name).seconds) for name in FOLDER)
    return f"{target} minutes for the target, {draft} for the draft"


def as_option(key: str, value: object) -> str:
    """Return what was typed: ("draft", (2, 8, 256)) -> "--draft 2,8,256" """
    if value is None:
        return f"no --{key}"
    return f"--{key} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
