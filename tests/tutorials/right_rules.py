"""Right rules, as different people write them. The check of exercise 3.7 must accept every one."""
import torch
import torch.nn.functional as F

from decoding.acceptance import Acceptance, accept_sampled, leading, residual
from decoding.random import draw, uniform


def finish(n, q, p, generator):
    """The end that many of them share: n are kept, and one token follows."""
    n = int(n)
    row = p[n] if n == len(q) else residual(p[n], q[n])
    return Acceptance(torch.tensor([n]), draw(row[None], generator))


def index_u(drafted, q, p, generator):
    n, u = 0, uniform((len(drafted),), generator, p.device)
    for i, x in enumerate(drafted):
        if u[i] < p[i, x] / q[i, x]:
            n += 1
        else:
            break
    return finish(n, q, p, generator)


def reject_and_leave(drafted, q, p, generator):
    for i, x in enumerate(drafted.tolist()):
        if uniform((1,), generator, p.device) >= p[i, x] / q[i, x]:
            return Acceptance(torch.tensor([i]), draw(residual(p[i], q[i])[None], generator))
    return Acceptance(torch.tensor([len(drafted)]), draw(p[-1:], generator))


def while_loop(drafted, q, p, generator):
    n = 0
    while n < len(drafted) and uniform((1,), generator, p.device) < (p[n] / q[n])[drafted[n]]:
        n += 1
    return finish(n, q, p, generator)


def no_dimension(drafted, q, p, generator):
    n = 0
    while n < len(drafted) and uniform((), generator, p.device) < (p[n] / q[n])[drafted[n]]:
        n += 1
    return finish(n, q, p, generator)


def no_division(drafted, q, p, generator):
    x, u = drafted[:, None], uniform((len(drafted),), generator, p.device)
    n = leading(u * q.gather(1, x)[:, 0] < p[:-1].gather(1, x)[:, 0])
    return finish(n, q, p, generator)


def no_division_other_way(drafted, q, p, generator):
    n = 0
    for u, x in zip(uniform((len(drafted),), generator, p.device), drafted):
        if not p[n, x] > q[n, x] * u:
            break
        n += 1
    return finish(n, q, p, generator)


def ratio_first(drafted, q, p, generator):
    i = torch.arange(len(drafted))
    ratio = p[i, drafted] / q[i, drafted]
    return finish(leading(ratio > uniform((len(drafted),), generator, p.device)), q, p, generator)


def iterate_u(drafted, q, p, generator):
    n = 0
    for u in uniform((len(drafted),), generator, p.device):
        if u >= p[n][drafted[n]] / q[n][drafted[n]]:
            break
        n += 1
    return finish(n, q, p, generator)


def numbers(drafted, q, p, generator):
    n, u = 0, uniform((len(drafted),), generator, p.device).tolist()
    p_rows, q_rows = p.tolist(), q.tolist()
    for i, x in enumerate(drafted.tolist()):
        if not u[i] < p_rows[i][x] / q_rows[i][x]:
            break
        n = i + 1
    return finish(n, q, p, generator)


def items(drafted, q, p, generator):
    for i in range(len(drafted)):
        u = uniform((1,), generator, p.device).item()
        if u >= min(1.0, (p[i, drafted[i]] / q[i, drafted[i]]).item()):
            return finish(i, q, p, generator)
    return finish(len(drafted), q, p, generator)


def clamped(drafted, q, p, generator):
    x, u = drafted.unsqueeze(-1), uniform((len(drafted),), generator, p.device)
    keep = torch.clamp(p[:-1].gather(-1, x) / q.gather(-1, x), max=1).squeeze(-1)
    return finish((u < keep).int().cumprod(0).sum().item(), q, p, generator)


def column(drafted, q, p, generator):
    x, u = drafted[:, None], uniform((len(drafted),), generator, p.device)
    passed = (u.unsqueeze(dim=1) < p[:-1].gather(1, x) / q.gather(1, x)).flatten()
    return finish(leading(passed), q, p, generator)


def batch_of_one(drafted, q, p, generator):
    u = uniform((1, len(drafted)), generator, p.device)
    x = drafted[None, :, None]
    ratio = (p[None, :-1].gather(2, x) / q[None].gather(2, x)).squeeze(2)
    return finish(leading((u < ratio)[0]), q, p, generator)


def reshaped(drafted, q, p, generator):
    u = uniform((1, len(drafted)), generator, p.device).squeeze(0).to(p.dtype)
    i = torch.arange(len(drafted))
    return finish(leading(u < (p[i, drafted] / q[i, drafted])), q, p, generator)


def rejected_places(drafted, q, p, generator):
    i = torch.arange(len(drafted))
    u = uniform((len(drafted),), generator, p.device)
    rejected = (u >= p[i, drafted] / q[i, drafted]).nonzero()
    n = rejected[0].item() if len(rejected) else len(drafted)
    return finish(n, q, p, generator)


def one_minus_u(drafted, q, p, generator):
    n = 0
    for x in drafted:
        if 1 - uniform((1,), generator, p.device) <= 1 - p[n, x] / q[n, x]:
            break
        n += 1
    return finish(n, q, p, generator)


def sure_ones_first(drafted, q, p, generator):
    n = 0
    for x in drafted:
        if p[n, x] < q[n, x] and uniform((1,), generator, p.device) >= p[n, x] / q[n, x]:
            break
        n += 1
    return finish(n, q, p, generator)


def excess(drafted, q, p, generator):
    n = 0
    for x in drafted:  # rejected with probability (q - p) / q
        if p[n, x] - q[n, x] * uniform((1,), generator, p.device) <= 0:
            break
        n += 1
    return finish(n, q, p, generator)


def collected(drafted, q, p, generator):
    ones = [uniform((1,), generator, p.device) for _ in drafted]
    if not ones:
        return finish(0, q, p, generator)
    i = torch.arange(len(drafted))
    return finish(leading(torch.cat(ones) < p[i, drafted] / q[i, drafted]), q, p, generator)


def stacked(drafted, q, p, generator):
    if len(drafted) == 0:
        return Acceptance(torch.zeros(1, dtype=torch.long), draw(p, generator))
    u = torch.stack([uniform((), generator, p.device) for _ in drafted])
    i = torch.arange(len(drafted))
    return finish(leading(torch.lt(u, p[i, drafted] / q[i, drafted])), q, p, generator)


def torch_functions(drafted, q, p, generator):
    i = torch.arange(len(drafted))
    u = torch.mul(uniform((len(drafted),), generator, p.device), q[i, drafted])
    return finish(leading(~torch.ge(u, p[i, drafted])), q, p, generator)


def two_tests(drafted, q, p, generator):
    n, k = 0, len(drafted)
    u = uniform((k,), generator, p.device)
    while n < k and (u[n] < 0.5 * p[n, drafted[n]] / q[n, drafted[n]]
                     or u[n] < p[n, drafted[n]] / q[n, drafted[n]]):
        n += 1
    return finish(n, q, p, generator)


def every_token_of_the_row(drafted, q, p, generator):
    n, k = 0, len(drafted)
    while n < k:
        passed = uniform((1,), generator, p.device) * q[n] < p[n]  # (n_vocab,)
        if not passed[drafted[n]]:
            break
        n += 1
    return finish(n, q, p, generator)


def padded(drafted, q, p, generator):
    k = len(drafted)
    i = torch.arange(k)
    n = leading(uniform((k,), generator, p.device) < p[i, drafted] / q[i, drafted])
    left = (p - F.pad(q, (0, 0, 0, 1))).clamp(min=0)[n]
    return Acceptance(n, draw(left / left.sum(-1, keepdim=True), generator))


def residual_not_normalised(drafted, q, p, generator):
    n, k = 0, len(drafted)
    for u in uniform((k,), generator, p.device).unbind():
        if float(p[n, drafted[n]] / q[n, drafted[n]]) <= u:
            break
        n += 1
    row = torch.relu(p[n] - q[n]) if n < k else p[n]
    return Acceptance(torch.tensor([n]), draw(row, generator).reshape(1))


def logarithms(drafted, q, p, generator):
    i = torch.arange(len(drafted))
    u = uniform((len(drafted),), generator, p.device)
    return finish(leading(u.log() < p[i, drafted].log() - q[i, drafted].log()), q, p, generator)


def logarithms_other_way(drafted, q, p, generator):
    n = 0
    for u, x in zip(uniform((len(drafted),), generator, p.device), drafted):
        if p[n, x].log() <= torch.log(u) + q[n, x].log():
            break
        n += 1
    return finish(n, q, p, generator)


def recursive(drafted, q, p, generator):
    if len(drafted) == 0:
        return finish(0, q, p, generator)
    if not (uniform((1,), generator, p.device) < (p[0] / q[0])[drafted[0]]).all():
        return finish(0, q, p, generator)
    rest = recursive(drafted[1:], q[1:], p[1:], generator)
    return Acceptance(rest.n + 1, rest.token)


def the_projects_own(drafted, q, p, generator):
    return accept_sampled(drafted, q, p, generator)


RIGHT_RULES = [rule for name, rule in list(globals().items())
               if callable(rule) and getattr(rule, "__module__", "") == __name__
               and name != "finish"]
