"""One round as a table, for whoever wants to see why each token was accepted or rejected."""
from torch import Tensor

from decoding.cli.table import (
    DRAFT,
    PLAIN,
    TARGET,
    VERDICT,
    Column,
    Look,
    bars,
    labelled,
    numbers,
    short,
    table,
)
from decoding.evidence import Evidence, evidence
from decoding.observer import Trace
from decoding.result import Round
from weights.tokenizer import show_token
from weights.vocabulary import Tokenizer


def explain(number: int, round: Round, tokenizer: Tokenizer, stage: int = VERDICT,
            look: Look = PLAIN) -> str:
    """Return a table with a line for each drafted token; last the extra token, caches and times.

    round: of a run with trace=True.
    stage: how much is shown. DRAFT: what was drafted; TARGET: also the target's answer; VERDICT:
        everything.
    Sampled: q, p, p/q and the uniform u of each test; after a rejection the largest entries of the
    residual. By the block rule P and h in place of p/q: the last token with u < h is accepted, with
    all before it. Greedy: the target's choice, and by how many logits it leads, over the drafted
    token if that is another one, else over the runner-up. With shared noise logits are
    log p + noise.
    """
    tests, rest = evidence(round)
    assert round.trace is not None  # else it would have been refused
    answers = (greedy_answers(round.drafted, round.trace, tokenizer) if round.trace.u is None
               else sampled_answers(tests, look))
    names = [f"{i} {show_token(token, tokenizer)}" for i, token in enumerate(round.drafted, 1)]
    return "\n".join([title(number, round, stage),
                      *judged(names, answers, round.verdicts, stage, look),
                      *outcome(round, rest, tokenizer, stage, look)])


def title(number: int, round: Round, stage: int) -> str:
    """Return the first line of a round."""
    n = len(round.drafted)
    if n == 0:
        return f"round {number}: nothing drafted"
    return f"round {number}: " + (f"{round.accepted} of {n} drafted tokens accepted"
                                  if stage == VERDICT else f"{n} tokens drafted")


def judged(names: list[str], answers: list[Column], verdicts: list[str], stage: int,
           look: Look) -> list[str]:
    """Return the table of the drafted tokens, in which each has the colour of its verdict."""
    if not names:
        return []
    fates = [verdict if stage == VERDICT and verdict != "not tested" else "draft"
             for verdict in verdicts]
    colors = ["accepted" if verdict == "accepted" else "" for verdict in verdicts]
    words = [verdict.upper() if verdict == "rejected" else verdict for verdict in verdicts]
    return table([Column("token", "drafted", names, fates, DRAFT), *answers,
                  Column("verdict", "verdict", words, colors, VERDICT)], stage, look)


def sampled_answers(tests: list[Evidence], look: Look, u_seen: int = TARGET) -> list[Column]:
    """Return the columns of tests by chance.

    u_seen: the first stage that shows u.
    """
    q, p, u, P, h = zip(*tests) if tests else [()] * 5
    block = any(value is not None for value in P)
    compared = ([numbers("P", P, "", TARGET), numbers("h", h, "", TARGET)] if block else
                [numbers("p/q", [p / q for q, p, *_ in tests], "", TARGET)])
    return [numbers("q", q, "draft", DRAFT), bars(q, "draft", DRAFT, look),
            numbers("p", p, "target", TARGET), bars(p, "target", TARGET, look),
            *compared, numbers("u", u, "", u_seen)]


def greedy_answers(drafted: list[int], trace: Trace, tokenizer: Tokenizer) -> list[Column]:
    """Return the columns of tests that no chance decides."""
    choices = trace.p.argmax(-1).tolist()[:len(drafted)]
    leads = []
    for token, choice, logits in zip(drafted, choices, trace.logits.float()):
        lead = logits[choice] - logits  # (n_vocab,) of the choice over every token
        rival = token if token != choice else int(lead.topk(2, largest=False).indices[1])
        leads.append(lead[rival].item())
    shown = [show_token(choice, tokenizer) for choice in choices]
    return [Column("token", "target's", shown, ["target"] * len(shown), TARGET),
            numbers("lead", leads, "", TARGET)]


def outcome(round: Round, rest: Tensor | None, tokenizer: Tokenizer, stage: int,
            look: Look) -> list[str]:
    """Return what is said below the table: the extra token, the caches, and the times.

    rest: (n_vocab,) the residual, if the token was drawn from one.
    """
    if stage < VERDICT:
        return []
    lines = [] if rest is None else labelled("residual", most_likely(rest, tokenizer), look)
    if round.extra is None:
        lines.append("end of text, no extra token")
    else:
        extra = look.paint(show_token(round.extra, tokenizer), round.kind)
        lines += labelled(round.kind, [extra], look)
    caches = [f"{whose} {lengths[0]} -> {lengths[1]}"
              for whose, lengths in (("target", round.target_cache), ("draft", round.draft_cache))
              if lengths]
    times = [f"{phase} {1000 * seconds:.1f} ms" for phase, seconds in round.phase_seconds.items()]
    return lines + labelled("caches", caches, look) + labelled("time", times, look)


def most_likely(row: Tensor, tokenizer: Tokenizer, n: int = 4) -> list[str]:
    """Return the n largest entries of a row of probabilities."""
    values, ids = row.topk(min(n, int((row > 0).sum())))
    return [f"{show_token(token, tokenizer)} {short(value)}"
            for value, token in zip(values.tolist(), ids.tolist())]
