"""Randomness comes from the generator that is passed in: one seed, one list of ids."""
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from decoding import (
    GREEDY,
    Sampling,
    autoregressive,
    speculative_rounds,
    speculative_sampling,
)
from decoding.acceptance import accept_sampled
from decoding.proof.toys import MemorylessModel, random_prompt, tiny_pair

PROMPT = random_prompt(5)
TARGET, DRAFT = tiny_pair()
PROGRAM = """
import pytest
import torch
from decoding import speculative_sampling
from decoding.proof.toys import random_prompt, tiny_pair
torch.set_num_threads(1)
generator = torch.Generator().manual_seed(7)
print(speculative_sampling(*tiny_pair(), random_prompt(5), 30, gamma=3, generator=generator).tokens)
"""


def seeded(seed=7):
    return torch.Generator().manual_seed(seed)


def tokens(generator, gamma=3, n=30):
    return speculative_sampling(TARGET, DRAFT, PROMPT, n, gamma=gamma, generator=generator).tokens


@pytest.mark.slow
def test_the_same_seed_gives_the_same_ids_in_fresh_processes():
    root = Path(__file__).parents[2]
    for hash_seed in ("1", "2"):
        run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True,
                             text=True, check=True,
                             env=os.environ | {"PYTHONHASHSEED": hash_seed,
                                               "PYTHONPATH": str(root)})
        assert run.stdout.strip() == str(tokens(seeded()))
    assert tokens(seeded()) != tokens(seeded(8))


def test_the_global_random_state_neither_matters_nor_changes():
    def disturbed():
        for r in speculative_rounds(TARGET, DRAFT, PROMPT, 30, gamma=3, rule=accept_sampled,
                                    sampling=Sampling(), generator=seeded()):
            torch.manual_seed(0)
            random.seed(0)
            yield from r.emitted

    assert list(disturbed()) == tokens(seeded())
    before = torch.random.get_rng_state(), random.getstate()
    for generator in (seeded(), None):
        tokens(generator)
        autoregressive(TARGET, PROMPT, 10, sampling=Sampling(), generator=generator)
    assert torch.equal(torch.random.get_rng_state(), before[0]) and random.getstate() == before[1]


def test_the_generator_goes_on_from_round_to_round_and_from_run_to_run():
    generator = seeded()
    states = [generator.get_state()]
    for _ in speculative_rounds(TARGET, DRAFT, PROMPT, 30, gamma=3, rule=accept_sampled,
                                sampling=Sampling(), generator=generator):
        states.append(generator.get_state())
    assert len({bytes(state.tolist()) for state in states}) == len(states) > 5
    generator = seeded()
    assert tokens(generator) != tokens(generator)


def test_without_a_generator_each_run_is_different():
    # two equal texts of 40 tokens: one chance in 2 to the 240
    coin = MemorylessModel([1 / 64] * 64, n_ctx=50)
    runs = [autoregressive(coin, [0], 40, sampling=Sampling()).tokens for _ in range(2)]
    runs += [speculative_sampling(coin, coin, [0], 40).tokens for _ in range(2)]
    assert len(set(map(tuple, runs))) == 4


def test_gamma_0_is_the_plain_loop_to_the_last_random_number():
    one, two = seeded(), seeded()
    assert tokens(one, gamma=0) == autoregressive(TARGET, PROMPT, 30, sampling=Sampling(),
                                                  generator=two).tokens
    assert torch.equal(one.get_state(), two.get_state())


def test_greedy_decoding_leaves_the_generator_alone():
    generator = seeded()
    autoregressive(TARGET, PROMPT, 10, sampling=GREEDY, generator=generator)
    speculative_sampling(TARGET, DRAFT, PROMPT, 10, sampling=GREEDY, generator=generator)
    assert torch.equal(generator.get_state(), seeded().get_state())
