"""decoding/minimal.py, page one: enumerated like the real loop, and no more than a page."""
from pathlib import Path

import pytest
import torch

from decoding import minimal
from decoding.proof.distributions import PROMPT, by_definition, difference
from decoding.proof.enumerate import distribution_of
from decoding.proof.toys import HashModel, tiny_pair
from decoding.sampling import Sampling

TARGET, DRAFT = HashModel(1), HashModel(2)


def found(target, draft, n, gamma, temperature=1.0):
    """The distribution of the texts that the page writes."""
    def program(generator):
        tokens = minimal.speculative_sampling(target, draft, PROMPT, n, generator, gamma,
                                              temperature)
        return tuple(tokens[len(PROMPT):])
    return distribution_of(program)


@pytest.mark.parametrize("gamma", [0, 1, *(pytest.param(gamma, marks=pytest.mark.slow)
                                           for gamma in (2, 3))])
def test_the_distribution_is_the_targets(gamma):
    for temperature in (1.0, 0.5, 2.0) if gamma < 3 else (0.5,):
        wanted = by_definition(TARGET, 4, Sampling(temperature))
        assert difference(found(TARGET, DRAFT, 4, gamma, temperature), wanted) < 1e-12


def test_any_draft_will_do():
    for draft in (TARGET, HashModel(2, never=[0]), HashModel(2, never=[0, 2])):
        assert difference(found(TARGET, draft, 3, 2), by_definition(TARGET, 3)) < 1e-12


def test_disjoint_supports():
    target, draft = HashModel(1, never=[1, 2]), HashModel(2, never=[0])
    assert difference(found(target, draft, 3, 2), by_definition(target, 3)) < 1e-12


def test_it_runs_on_real_models_and_leaves_the_prompt_alone():
    target, draft = tiny_pair()
    prompt, generator = [1, 2, 3], torch.Generator().manual_seed(0)
    tokens = minimal.speculative_sampling(target, draft, prompt, 50, generator)
    assert (tokens[:3], len(tokens), prompt) == ([1, 2, 3], 53, [1, 2, 3])


def test_it_is_one_page_and_imports_nothing_but_the_randomness():
    lines = Path(minimal.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert [line for line in lines if "import" in line] == [
        "import torch", "from decoding.random import draw, uniform"]
