"""One round over a tree as a table: the candidates of each position, and which one was kept."""
from typing import NamedTuple

import torch
from torch import Tensor

from decoding.acceptance import residual
from decoding.cli.table import DRAFT, PLAIN, TARGET, VERDICT, Column, Look, bars, numbers
from decoding.cli.trace import judged, outcome, title
from decoding.drafters.tree import TEXT
from decoding.result import Round
from decoding.tree import TreeRound, TreeTrace
from decoding.walks import without
from weights.tokenizer import show_token
from weights.vocabulary import Tokenizer


class Candidate(NamedTuple):
    """A drafted token as it was when its turn came; None is what no test has asked for."""

    q: float
    p: float | None
    ratio: float | None
    u: float | None


def explain_tree(number: int, round: Round, tokenizer: Tokenizer, stage: int = VERDICT,
                 look: Look = PLAIN) -> str:
    """Return a table with a line for each candidate, and what `explain` says below.

    round: a TreeRound of a run with trace=True.
    stage: as for `explain`. Before the verdict all of the tree is shown, then only the candidates
        of the path that was walked.
    Candidate 1.2 is the second that may follow candidate 1. Drawn candidates: q and p are what
    earlier candidates have left of both, and u the uniform of the test. Otherwise the target's own
    choice.
    """
    trace = round.trace
    if not (isinstance(round, TreeRound) and isinstance(trace, TreeTrace)):
        raise ValueError("this is no round of trees that was run with trace=True")
    decided = [TEXT, *round.path][:round.tested]  # the tokens after which a candidate was judged
    labels = label(round.parents)
    shown = [i for i in sorted(range(len(labels)), key=lambda i: (labels[i].count("."), i))
             if stage < VERDICT or round.parents[i] in decided]
    found, rest = candidates(round, trace, decided[-1] if decided else TEXT)
    rows = [found[i] for i in shown]
    q = [row.q for row in rows]
    answers = [numbers("q", q, "draft", DRAFT), bars(q, "draft", DRAFT, look)]
    if trace.tests:
        p = [row.p for row in rows]
        answers += [numbers("p", p, "target", TARGET), bars(p, "target", TARGET, look),
                    numbers("p/q", [row.ratio for row in rows], "", TARGET),
                    numbers("u", [row.u for row in rows], "", TARGET)]
    else:
        choices = trace.p.argmax(-1).tolist()
        own = [show_token(choices[round.parents[i] + 1], tokenizer) for i in shown]
        answers.append(Column("token", "target's", own, ["target"] * len(own), TARGET))
    names = [f"{labels[i]} {show_token(round.drafted[i], tokenizer)}" for i in shown]
    verdicts = [verdict(i, round, trace, decided) for i in shown]
    left = len(labels) - len(shown)
    others = [f"{left} more on other branches, not tested"] if left else []
    return "\n".join([title(number, round, stage), *judged(names, answers, verdicts, stage, look),
                      *others, *outcome(round, rest, tokenizer, stage, look)])


def label(parents: list[int]) -> list[str]:
    """Return the name of each token: that of the token before it, and its number among siblings."""
    labels: list[str] = []
    for i, parent in enumerate(parents):
        nth = str(parents[:i].count(parent) + 1)
        labels.append(nth if parent == TEXT else f"{labels[parent]}.{nth}")
    return labels


def verdict(i: int, round: TreeRound, trace: TreeTrace, decided: list[int]) -> str:
    """Return what became of a candidate. Those drawn after an accepted one are not tested."""
    if i in round.path:
        return "accepted"
    tested = not trace.tests or i in [test.node for test in trace.tests]
    return "REJECTED" if tested and round.parents[i] in decided else "not tested"


def candidates(round: TreeRound, trace: TreeTrace,
               last: int) -> tuple[dict[int, Candidate], Tensor | None]:
    """Return every candidate with its numbers, and the residual if the extra token is from one.

    last: the token after which all candidates were rejected, if the extra token is a correction.
    """
    tests = {test.node: test for test in trace.tests}
    found: dict[int, Candidate] = {}
    rest = None
    for parent in dict.fromkeys(round.parents):
        children = [i for i, other in enumerate(round.parents) if other == parent]
        p, q = trace.p[parent + 1], trace.q[children[0]]
        for i in children:
            x = round.drafted[i]
            test = tests.get(i)
            if test is None:
                found[i] = Candidate(q[x].item(), None, None, None)
            else:
                found[i] = Candidate(q[x].item(), p[x].item(), test.ratio.item(), test.u.item())
                p = residual(p, q)
            if trace.tests:
                q = without(q, torch.tensor([x], device=q.device))
        if parent == last and round.kind == "correction" and trace.tests:
            rest = p
    return found, rest
