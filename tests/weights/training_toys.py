"""What the tests of training share: small stories, ids that can be learnt, models of 40 tokens."""
import functools
import itertools
import random
import re

import torch

from model import GPT2, GPT2Config
from weights.tokenizer import gpt2_tokenizer
from weights.training import corpus
from weights.training.loop import Trainer
from weights.training.objective import to_blocks
from weights.training.recipe import Recipe, initialise

CONFIG = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_vocab=40, n_ctx=8)
RECIPE = Recipe(learning_rate=1e-2, weight_decay=0.1, batch=4, steps=4)
WORDS = re.findall(r"\w+", "once upon a time there was an old king who had three daughters "
                           "and they lived in the forest")

# to make it takes as long as most of these tests
corpus.gpt2_tokenizer = functools.cache(gpt2_tokenizer)


def story(n_words, seed=0):
    return " ".join(random.Random(seed).choices(WORDS, k=n_words)) + "."


def toy_ids(n=400):
    """A text that can be learnt: each id is mostly the one before it plus one."""
    dice = random.Random(0)
    ids = [0]
    while len(ids) < n:
        ids.append((ids[-1] + dice.choice([1, 1, 1, 2])) % CONFIG.n_vocab)
    return torch.tensor(ids, dtype=torch.int32)


def toy_model(seed=0, spread=0.5):
    """A model whose distributions are far from flat."""
    model = GPT2(CONFIG)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.data = spread * torch.randn(weight.shape, generator=generator)
    return model.eval()


def toy_trainer(recipe=RECIPE, teacher=None, seed=0, **more):
    return Trainer(initialise(GPT2(CONFIG), seed), toy_ids(), to_blocks(toy_ids(100), 8), recipe,
                   teacher, seed, **more)


def ticking():
    """A clock that moves on by a second each time someone looks."""
    return itertools.count().__next__


def same(a, b):
    """Equal to the last bit, whatever they are made of."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b
