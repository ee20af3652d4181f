"""Random runs of a small pair, by every loop, against the plain loop."""
import random
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.batched import autoregressive_batch, speculative_batch
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters.tree import tree_drafter
from decoding.gamma import AdaptiveGamma
from decoding.sampling import GREEDY
from decoding.shapes import shape
from decoding.tree import speculative_tree
from model import Decoder
from tests.commands import END_OF_TEXT, N_CTX
from tests.fuzz.calls import write_inputs
from weights import load_model


def random_runs(dice: random.Random, n: int) -> Iterator[str | None]:
    """Yield what is wrong with each of n runs. In float64 no near-tie decides."""
    write_inputs()
    target, draft = (load_model(Path(name), dtype=torch.float64) for name in ("target", "draft"))
    for _ in range(n):
        prompt = [dice.randrange(END_OF_TEXT + 1) for _ in range(dice.randint(1, N_CTX))]
        new, gamma = dice.randrange(60), dice.choice([0, 1, 2, 3, 4, 8, 99, AdaptiveGamma()])
        eos, seed = dice.choice([None, END_OF_TEXT, dice.randrange(256)]), dice.randrange(10**9)
        sampling = Sampling(dice.choice([0, 1e-8, 0.5, 1, 1.7, 100]),
                            dice.choice([None, 1, 3, 40, 999]), dice.choice([None, 1e-9, 0.5, 1.0]))
        what = f"seed {seed}: prompt {prompt}, {new} new, gamma {gamma}, eos {eos}, {sampling}"
        state = torch.random.get_rng_state()
        try:
            generator = torch.Generator().manual_seed(seed)
            run = speculative_sampling(target, draft, prompt, new, gamma=gamma, sampling=sampling,
                                       eos=eos, generator=generator)
            two = target, draft
            if not sampling.greedy:
                noise = SharedNoise(torch.Generator().manual_seed(seed))
                two = Coupled(target, sampling, noise), Coupled(draft, sampling, noise)
            plain = autoregressive(two[0], prompt, new, eos=eos)
            again = speculative_greedy(*two, prompt, new, gamma=gamma, eos=eos)
            others = in_other_ways(dice, target, draft, prompt, new, eos)
            ends = len(run.tokens) in (new, N_CTX + 1 - len(prompt)) or run.tokens[-1] == eos
            sound = (again.tokens == plain.tokens and ends and len(run.tokens) <= new
                     and 0 <= run.accepted <= run.tested <= run.drafted
                     and run.accepted + run.corrections + run.bonuses == len(run.tokens)
                     and eos not in run.tokens[:-1] and torch.is_grad_enabled()
                     and torch.equal(state, torch.random.get_rng_state()))
            found = f"{what} gave {run.tokens}, and {again.tokens} for {plain.tokens}"
            yield None if sound and others is None else f"{found}; {others}"
        except Exception:
            yield f"{what}\n{traceback.format_exc()}"


def in_other_ways(dice: random.Random, target: Decoder, draft: Decoder, prompt: list[int],
                  new: int, eos: int | None) -> str | None:
    """Decode greedily by a tree, and in a batch. Return where the text is not the plain loop's."""
    drafter = tree_drafter(draft, shape(dice.choice(["1x1", "3x2", "2x9", "2,3", "1,2,2"])))
    wanted = autoregressive(target, prompt, new, eos=eos).tokens
    tree = speculative_tree(target, drafter, prompt, new, sampling=GREEDY, eos=eos)
    prompts = [prompt, prompt[:dice.randint(1, len(prompt))], [dice.randrange(256)]]
    alone = [autoregressive(target, ids, new, eos=eos).tokens for ids in prompts]
    gamma, at_once = dice.randrange(6), dice.choice([1, 2, 3, None])
    batch = [[run.tokens for run in runs] for runs in (
        autoregressive_batch(target, prompts, new, eos=eos, at_once=at_once),
        speculative_batch(target, draft, prompts, new, gamma=gamma, eos=eos, at_once=at_once))]
    if tree.tokens == wanted and batch == [alone, alone]:
        return None
    return f"{wanted} is {tree.tokens} by a tree; {alone} is {batch} in batches of {at_once}"
