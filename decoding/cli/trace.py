"""One round in one line, for whoever wants to see why each token was kept or rejected."""
import tiktoken
from torch import Tensor

from decoding.acceptance import residual
from decoding.observer import Trace
from decoding.result import Round
from weights.tokenizer import show_token


def explain(number: int, round: Round, tokenizer: tiktoken.Encoding) -> str:
    """Return one line: what was drafted, the target's answer, the rule's verdict, and the caches.

    round: of a run with trace=True.
    Sampled: p, q, p/q and the uniform u of each test; after a rejection the largest entries of the
    residual. By the block rule p/q, P, h and u: the last token with u < h is kept, with all before
    it. Greedy: the target's choice, and by how many logits it leads, over the drafted token
    if that is another one, else over the runner-up. With shared noise logits are log p + noise.
    """
    trace = round.trace
    if trace is None:
        raise ValueError("this round was run without trace=True")
    parts = [f"{show_token(token, tokenizer)} {test_result(round, trace, i, tokenizer)}"
             for i, token in enumerate(round.drafted)]
    if round.kind == "correction" and trace.u is not None:
        P = 1 if trace.block is None else trace.block.P[round.accepted]
        rest = residual(P * trace.p[round.accepted], trace.q[round.accepted])
        parts.append("residual " + most_likely(rest, tokenizer))
    return f"round {number}: " + " | ".join([*parts, *outcome(round, tokenizer)])


def outcome(round: Round, tokenizer: tiktoken.Encoding) -> list[str]:
    """Return what is said of every round: its extra token, the caches, and the times."""
    parts = ["end of text, no extra token" if round.extra is None
             else f"{round.kind} {show_token(round.extra, tokenizer)}"]
    for whose, lengths in (("target", round.target_cache), ("draft", round.draft_cache)):
        if lengths:
            parts.append(f"{whose} cache {lengths[0]} -> {lengths[1]}")
    parts.append(", ".join(f"{phase} {1000 * seconds:.1f} ms"
                           for phase, seconds in round.phase_seconds.items()))
    return parts


def test_result(round: Round, trace: Trace, i: int, tokenizer: tiktoken.Encoding) -> str:
    """Return how the i-th drafted token was tested, and what came of it."""
    if i >= round.tested:
        return "not tested"
    numbers = (greedy_test(trace, i, round.drafted[i], tokenizer) if trace.u is None
               else sampled_test(trace, i, round.drafted[i], trace.u))
    return f"{numbers} {'kept' if i < round.accepted else 'REJECTED'}"


def sampled_test(trace: Trace, i: int, token: int, u: Tensor) -> str:
    p, q = trace.p[i, token].item(), trace.q[i, token].item()
    if trace.block is None:
        return f"p {p:.3g} q {q:.3g} p/q {p / q:.3g} u {u[i].item():.3g}"
    P, h = trace.block.P[i + 1].item(), trace.block.h[i + 1].item()
    return f"p/q {p / q:.3g} P {P:.3g} h {h:.3g} u {u[i].item():.3g}"


def greedy_test(trace: Trace, i: int, drafted: int, tokenizer: tiktoken.Encoding) -> str:
    logits = trace.logits[i].float()
    choice = int(trace.p[i].argmax())
    lead = logits[choice] - logits  # (n_vocab,) of the choice over every token
    rival = drafted if drafted != choice else int(lead.topk(2, largest=False).indices[1])
    return f"target {show_token(choice, tokenizer)} by {lead[rival].item():+.2f}"


def most_likely(row: Tensor, tokenizer: tiktoken.Encoding, n: int = 4) -> str:
    """Return the n largest entries of a row of probabilities."""
    values, ids = row.topk(min(n, int((row > 0).sum())))
    return ", ".join(f"{show_token(token, tokenizer)} {value:.3g}"
                     for value, token in zip(values.tolist(), ids.tolist()))
