"""One round over a tree as a table: the candidates of each position, and which one was kept."""
from decoding.cli.table import DRAFT, PLAIN, TARGET, VERDICT, Column, Look, bars, numbers
from decoding.cli.trace import judged, outcome, sampled_answers, title
from decoding.drafters.tree import TEXT
from decoding.evidence import evidence
from decoding.result import Round
from decoding.tree import TreeRound, TreeTrace
from weights.tokenizer import show_token
from weights.vocabulary import Tokenizer


def explain_tree(number: int, round: Round, tokenizer: Tokenizer, stage: int = VERDICT,
                 look: Look = PLAIN) -> str:
    """Return a table with a line for each candidate, and what `explain` says below.

    round: a TreeRound of a run with trace=True.
    stage: as for `explain`. Before the verdict all of the tree is shown, then only the candidates
        of the path that was walked.
    Candidate 1.2 is the second that may follow candidate 1. Drawn candidates: q and p are what
    earlier candidates have left of both, and u the uniform of the test; it is shown with the
    verdict, which it would give away, as only tested candidates have one. Otherwise the target's
    own choice.
    """
    trace = round.trace
    if not (isinstance(round, TreeRound) and isinstance(trace, TreeTrace)):
        raise ValueError("this is no round of trees that was run with trace=True")
    decided = [TEXT, *round.path][:round.tested]  # the tokens after which a candidate was judged
    labels = label(round.parents)
    shown = [i for i in sorted(range(len(labels)), key=lambda i: (labels[i].count("."), i))
             if stage < VERDICT or round.parents[i] in decided]
    found, rest = evidence(round)
    tests = [found[i] for i in shown]
    if trace.tests:
        answers = sampled_answers(tests, look, u_seen=VERDICT)
    else:
        q, choices = [test.q for test in tests], trace.p.argmax(-1).tolist()
        own = [show_token(choices[round.parents[i] + 1], tokenizer) for i in shown]
        answers = [numbers("q", q, "draft", DRAFT), bars(q, "draft", DRAFT, look),
                   Column("token", "target's", own, ["target"] * len(own), TARGET)]
    names = [f"{labels[i]} {show_token(round.drafted[i], tokenizer)}" for i in shown]
    verdicts = [round.verdicts[i] for i in shown]
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
