"""Requests of the wrong type: every loop refuses them in one line, before the first pass."""
import numpy as np
import pytest
import torch

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.batched import batch_rounds
from decoding.drafters import LookupDrafter
from decoding.drafters.tree import CombDrafter
from decoding.proof.toys import tiny_pair
from decoding.tree import tree_rounds

TARGET, DRAFT = tiny_pair()
N_VOCAB = TARGET.config.n_vocab


def in_a_batch(prompt, n, **more):
    return [round for rounds in batch_rounds(TARGET, DRAFT, [prompt], n, gamma=2, **more)
            for round in rounds.values()]


LOOPS = {
    "plain": lambda prompt, n, **more: autoregressive(TARGET, prompt, n, **more).rounds,
    "greedy": lambda prompt, n, **more: speculative_greedy(TARGET, DRAFT, prompt, n, **more).rounds,
    "sampled": lambda prompt, n, **more: speculative_sampling(TARGET, DRAFT, prompt, n,
                                                              **more).rounds,
    "tree": lambda prompt, n, **more: list(tree_rounds(
        TARGET, CombDrafter(DRAFT, depth=2, width=2), prompt, n, sampling=Sampling(), **more)),
    "batch": in_a_batch,
}


@pytest.fixture(params=LOOPS)
def loop(request):
    return LOOPS[request.param]


@pytest.mark.parametrize("prompt", [
    [[1, 2]], [[1], [2]], torch.tensor([1, 2]), torch.tensor([[1, 2]]), np.array([1, 2]), None,
    True, 1, [True], [1, False], [1, 2.0], ["1"], "12", b"12", {1, 2}, [None]], ids=repr)
def test_a_prompt_is_a_list_of_whole_numbers(loop, prompt):
    with pytest.raises(ValueError, match=r"^the prompt must be a list of token ids") as refusal:
        loop(prompt, 5)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("token", [-1, N_VOCAB])
def test_a_prompt_has_ids_of_the_model_only(loop, token):
    loop([0, N_VOCAB - 1], 1)
    with pytest.raises(ValueError, match=rf"not among the model's {N_VOCAB} tokens"):
        loop([1, token], 5)


@pytest.mark.parametrize("n", [1.5, 2.0, "3", None, True, -1, [2.0], float("nan")], ids=repr)
def test_max_new_tokens_is_a_whole_number(loop, n):
    with pytest.raises(ValueError, match=r"^max_new_tokens must be a whole number of at least 0"):
        loop([1, 2], n)


@pytest.mark.parametrize("eos", [[3.0], 3.0, "3", True, -1, N_VOCAB, [1, N_VOCAB]], ids=repr)
def test_eos_is_an_id_or_several(loop, eos):
    with pytest.raises(ValueError, match=rf"^eos must be one or several ids .* {N_VOCAB} tokens"):
        loop([1, 2], 5, eos=eos)


@pytest.mark.parametrize("gamma", [True, 2.0, "3", None, -1], ids=repr)
def test_gamma_is_a_whole_number(gamma):
    for loop in (speculative_greedy, speculative_sampling):
        with pytest.raises(ValueError, match=r"^gamma must be"):
            loop(TARGET, DRAFT, [1, 2], 5, gamma=gamma)
    with pytest.raises(ValueError, match=r"^gamma must be"):
        batch_rounds(TARGET, DRAFT, [[1, 2]], 5, gamma=gamma)


def test_a_drafter_has_the_targets_vocabulary():
    stranger = LookupDrafter(N_VOCAB + 1)
    for loop in (speculative_greedy, speculative_sampling):
        with pytest.raises(ValueError, match=rf"^the draft has {N_VOCAB + 1} tokens .* {N_VOCAB}$"):
            loop(TARGET, stranger, [1, 2], 5)


def test_numpys_whole_numbers_are_whole_numbers(loop):
    def run(whole):
        generator = torch.Generator().manual_seed(0)
        more = {} if loop in (LOOPS["greedy"], in_a_batch) else {"generator": generator}
        rounds = loop([whole(1), whole(2)], whole(5), eos=whole(3), **more)
        return [token for round in rounds for token in round.emitted]

    assert run(np.int64) == run(np.uint8) == run(int) != []
    for numpys in (np.int64, np.uint8):
        assert speculative_greedy(TARGET, DRAFT, [1], 5, gamma=numpys(2)).gamma == 2
