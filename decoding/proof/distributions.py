"""The law of whole texts, {text: probability}: by the definition, and by enumeration of the real loop."""
import torch

from decoding import speculative_rounds
from decoding.acceptance import accept_sampled
from decoding.sampling import UNCHANGED
from tests.toys import plain_probs
from tests.tree import law

PROMPT = [0, 1]


def law_by_definition(model, n, sampling=UNCHANGED, eos=None, prompt=PROMPT):
    """The probability of each text of n new tokens: the product of the model's own probabilities, token by token."""
    texts = {}

    def extend(text, probability):
        new = tuple(text[len(prompt):])
        if len(new) == n or new[-1:] == (eos,) or len(text) > model.config.n_ctx:
            texts[new] = probability
            return
        logits = model.forward(torch.tensor([text]), last=1)[0, 0].tolist()
        for token, chance in enumerate(plain_probs(logits, sampling)):
            if chance > 0:
                extend(text + [token], probability * chance)

    extend(prompt, 1.0)
    return texts


def law_of_loop(target, draft, n, gamma, sampling=UNCHANGED, rule=accept_sampled, prompt=PROMPT, **options):
    """The same, of `speculative_rounds`: run once for each way that its draws and its acceptance tests can turn out."""
    def program():
        rounds = speculative_rounds(target, draft, prompt, n, gamma=gamma, rule=rule, sampling=sampling, **options)
        return tuple(token for r in rounds for token in r.emitted)
    return law(program)


def difference(found, wanted):
    """The largest difference between two laws; infinite if they do not agree on which texts can be written at all."""
    if found.keys() != wanted.keys():
        return float("inf")
    return max(abs(found[text] - wanted[text]) for text in wanted)
