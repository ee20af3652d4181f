"""Solutions to the exercises of notebook 3."""
import torch

from decoding.acceptance import Acceptance, leading
from decoding.random import draw, uniform


def chance_of_keeping(p, q):
    """x is drafted with q(x), kept with min(1, p(x)/q(x)): together min(p(x), q(x)). Summed."""
    return torch.minimum(p, q).sum()


def third_die(p, q):
    """What of p the kept tokens do not cover.

    Never a softmax: a token that is not missing must get exactly 0.
    """
    missing = (p - q).clamp(min=0)
    total = missing.sum(-1, keepdim=True)
    return torch.where(total > 0, missing / total, p)


def distribution_when_redrawn(p, q):
    """Kept as before, min(p, q). What is thrown away, 1 - alpha in total, is spread over p."""
    kept = torch.minimum(p, q)
    return kept + (1 - kept.sum()) * p


def distribution_of_a_greedy_draft(p, q):
    """Only the favourite is ever drafted, and kept with p/q. The rest goes to the residual."""
    x = q.argmax()
    keep = (p[x] / q[x]).clamp(max=1)
    out = (1 - keep) * third_die(p, q)
    out[x] += keep
    return out


def keep(x, p, q, u):
    """u < p/q, and not u <= p/q: a token that the target never writes must go even if u is 0."""
    return bool(u < p[x] / q[x])


def one_token(x, p, q, u):
    """All on x if it is kept, else the third die."""
    if keep(x, p, q, u):
        return torch.nn.functional.one_hot(torch.tensor(x), len(p)).to(p.dtype)
    return third_die(p, q)


def my_rule(drafted, q, p, generator):
    """The project's own `accept_sampled`, with the bonus as a case of its own."""
    k = len(drafted)
    positions = torch.arange(k, device=p.device)
    u = uniform((k,), generator, p.device)
    n = leading(u < p[positions, drafted] / q[positions, drafted])
    last = p[n] if n == k else third_die(p[n], q[n])
    return Acceptance(n, draw(last, generator))
