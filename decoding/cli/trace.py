"""One round in one line, for whoever wants to see why each token was kept or rejected."""
from torch import Tensor

from decoding.acceptance import residual
from decoding.result import Round
from weights.tokenizer import show_token


def describe(number: int, round: Round, tokenizer) -> str:
    """What was drafted, what the target said to it, what the rule made of it, and the caches before and after.

    Needs a round run with trace=True. Sampled: p, q, p/q and the uniform u of each test; after a rejection the largest
    entries of the residual. Greedy: the target's choice, and by how many logits it leads, the drafted token if that is
    another one, else the runner-up. Under shared noise logits are log p + noise.
    """
    sampled = round.trace.u is not None
    show = sampled_test if sampled else greedy_test
    parts = [f"round {number}:"]
    for i, token in enumerate(round.drafted):
        tested = i < round.tested
        kept = "kept" if i < round.accepted else "REJECTED"
        parts.append(f"{show_token(token, tokenizer)} {show(round, i, tokenizer)} {kept}" if tested
                     else f"{show_token(token, tokenizer)} not tested")
    if round.kind == "correction" and sampled:
        parts.append("residual " + top(residual_row(round), tokenizer))
    parts.append(f"{round.kind} {show_token(round.extra, tokenizer)}" if round.extra is not None else "end of text, no extra token")
    parts += [f"{whose} cache {lengths[0]} -> {lengths[1]}"
              for whose, lengths in (("target", round.target_cache), ("draft", round.draft_cache)) if lengths]
    parts.append(", ".join(f"{phase} {1000 * seconds:.1f} ms" for phase, seconds in round.phase_seconds.items()))
    return parts[0] + " " + " | ".join(parts[1:])


def sampled_test(round: Round, i: int, tokenizer) -> str:
    token = round.drafted[i]
    p, q = round.trace.p[i, token].item(), round.trace.q[i, token].item()
    return f"p {p:.3g} q {q:.3g} p/q {p / q:.3g} u {round.trace.u[i].item():.3g}"


def greedy_test(round: Round, i: int, tokenizer) -> str:
    logits, drafted = round.trace.logits[i].float(), round.drafted[i]
    choice = round.trace.p[i].argmax().item()
    lead = logits[choice] - logits  # (n_vocab,) of the choice over every token
    rival = drafted if drafted != choice else lead.topk(2, largest=False).indices[1]
    return f"target {show_token(choice, tokenizer)} by {lead[rival].item():+.2f}"


def residual_row(round: Round) -> Tensor:
    """The distribution the correction was drawn from. (n_vocab,)"""
    return residual(round.trace.p[round.accepted], round.trace.q[round.accepted])


def top(row: Tensor, tokenizer, n: int = 4) -> str:
    """The n largest entries of a row of probabilities."""
    values, ids = row.topk(min(n, int((row > 0).sum())))
    return ", ".join(f"{show_token(token, tokenizer)} {value:.3g}" for value, token in zip(values.tolist(), ids.tolist()))
