"""Solutions to the exercises of notebook 4."""
from collections import Counter

import torch

from decoding.sampling import to_probs


def sample_distance(a, b):
    """Half the sum of the differences of the shares, over every text that occurs in either sample.

    A Counter gives 0 for a text it never saw.
    """
    left, right = Counter(a), Counter(b)
    return sum(abs(left[text] / len(a) - right[text] / len(b)) for text in {*a, *b}) / 2


def p_value(observed, shuffled):
    """The real cut is one of those that chance can make: it counts above and below the line."""
    return (1 + (shuffled >= observed).sum().item()) / (1 + len(shuffled))


def mean_acceptance(p_logits, q_logits, sampling):
    """Both distributions under the same settings, then the overlap.

    Temperature and filters belong to p and q.
    """
    p, q = to_probs(p_logits, sampling), to_probs(q_logits, sampling)
    return torch.minimum(p, q).sum(-1).mean()


def acceptance_of_a_greedy_draft(p, q):
    """With a one-hot q the ratio at the favourite is p/1.

    So it is kept as often as the target itself would write it.
    """
    return p.gather(-1, q.argmax(-1, keepdim=True)).squeeze(-1)


def distribution_of_accepted(beta):
    """Reaching position i takes all tests before it: a running product.

    Stopping there takes a failure, or the end of the block.
    """
    reached = torch.cat([torch.ones(1, dtype=beta.dtype), beta.cumprod(0)])
    stops = torch.cat([1 - beta, torch.ones(1, dtype=beta.dtype)])
    return reached * stops
