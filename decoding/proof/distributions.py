"""The distribution of whole texts, {text: probability}: by definition, and by enumeration."""
from typing import Any

import torch

from decoding.acceptance import accept_sampled
from decoding.drafters.tree import TreeDrafter
from decoding.feed import Model, TreeModel
from decoding.proof.enumerate import distribution_of
from decoding.proof.reference import plain_probs
from decoding.sampling import UNCHANGED, Sampling
from decoding.speculative import Rule, speculative_rounds
from decoding.tree import tree_rounds

Texts = dict[tuple[int, ...], float]
PROMPT = [0, 1]


def by_definition(model: Model, n: int, sampling: Sampling = UNCHANGED, eos: int | None = None,
                  prompt: list[int] = PROMPT) -> Texts:
    """Return the probability of each text of n new tokens.

    It is the product of the model's own probabilities, token by token.
    """
    texts: Texts = {}

    def extend(text: list[int], probability: float) -> None:
        new = tuple(text[len(prompt):])
        if len(new) == n or new[-1:] == (eos,) or len(text) > model.config.n_ctx:
            texts[new] = probability
            return
        logits = model.forward(torch.tensor([text]), last=1)[0, 0].tolist()
        for token, chance in enumerate(plain_probs(logits, sampling)):
            if chance > 0:
                extend([*text, token], probability * chance)

    extend(prompt, 1.0)
    return texts


def by_enumeration(target: Model, draft, n: int, gamma: int, sampling: Sampling = UNCHANGED,
                   rule: Rule = accept_sampled, prompt: list[int] = PROMPT, **options) -> Texts:
    """Return the probability of each text of n new tokens that `speculative_rounds` can write."""
    def program(generator):
        rounds = speculative_rounds(target, draft, prompt, n, gamma=gamma, rule=rule,
                                    sampling=sampling, generator=generator, **options)
        return tuple(token for r in rounds for token in r.emitted)
    return distribution_of(program)


def by_enumeration_of_trees(target: TreeModel, drafter: TreeDrafter, n: int,
                            sampling: Sampling = UNCHANGED, prompt: list[int] = PROMPT,
                            **options: Any) -> Texts:
    """Return the probability of each text of n new tokens that `tree_rounds` can write."""
    def program(generator):
        rounds = tree_rounds(target, drafter, prompt, n, sampling=sampling, generator=generator,
                             **options)
        return tuple(token for r in rounds for token in r.emitted)
    return distribution_of(program)


def difference(found: Texts, wanted: Texts) -> float:
    """Return the largest difference between two distributions.

    It is infinite if they do not agree on which texts can be written at all.
    """
    if found.keys() != wanted.keys():
        return float("inf")
    return max(abs(found[text] - wanted[text]) for text in wanted)
