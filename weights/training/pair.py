"""A target from scratch, then its draft: the order of events once the text is ready."""
import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from decoding.session import pick_device
from model import GPT2, GPT2Config
from weights.load import load_model
from weights.training.card import make_card
from weights.training.corpus import Corpus, vocabulary_file
from weights.training.folder import write_folder
from weights.training.loop import Trainer, save_checkpoint
from weights.training.objective import Evaluation, evaluate, to_blocks
from weights.training.progress import Progress, StopOnInterrupt, in_words, minutes, say
from weights.training.recipe import Recipe, initialise

TARGET = Recipe(learning_rate=2e-3, weight_decay=0.1, batch=16)
DRAFT = Recipe(learning_rate=3e-3, weight_decay=0.01, batch=16)
TARGET_SHARE = 0.6  # of the minutes; the draft gets the rest
SAMPLE = 8192  # held-out tokens measured during training
FINAL_SAMPLE = 65536  # and at its end
CHECKPOINT_SECONDS = 60
UNTOUCHED = ("text", "held_out", "out", "resume")  # options that a run may go on without: a digest stands for the texts


class PairTraining:
    """One run of `python -m weights.train`: makes out/large, then out/small. `checkpoint`: what an earlier run left."""

    def __init__(self, options: argparse.Namespace, corpus: Corpus, clock: Callable[[], float] = time.monotonic) -> None:
        self.options, self.corpus, self.clock = options, corpus, clock
        self.device = torch.device(pick_device(options.device))
        self.ids, self.held_out_ids = (torch.frombuffer(ids, dtype=torch.int32) for ids in (corpus.train, corpus.held_out))
        self.settings = {key: value for key, value in vars(options).items() if key not in UNTOUCHED}
        self.settings |= {"device": self.device.type, "text": corpus.digest}
