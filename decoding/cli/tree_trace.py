"""One round over a tree in one line: the candidates of each position, and which one was kept."""
import tiktoken

from decoding.cli.trace import outcome
from decoding.drafters.tree import TEXT
from decoding.result import Round
from decoding.tree import TreeRound, TreeTrace
from weights.tokenizer import show_token


def explain_tree(number: int, round: Round, tokenizer: tiktoken.Encoding) -> str:
    """Return one line: for each position of the path all its candidates, then as `explain` does.

    round: a TreeRound of a run with trace=True.
    Drawn candidates: the ratio p/q, after what rejected ones have left of both, and the uniform u
    of each test. Otherwise the target's own choice. Branches that were left are not shown.
    """
    trace = round.trace
    if not (isinstance(round, TreeRound) and isinstance(trace, TreeTrace)):
        raise ValueError("this is no round of trees that was run with trace=True")
    tests = {test.node: f"p/q {test.ratio.item():.3g} u {test.u.item():.3g}"
             for test in trace.tests}
    parts = []
    for depth, node in enumerate([TEXT, *round.path][:round.tested], start=1):
        kept = round.path[depth - 1] if depth <= len(round.path) else None
        shown = []
        for child in (i for i, parent in enumerate(round.parents) if parent == node):
            verdict = "kept" if child == kept else "REJECTED"
            if child not in tests:
                verdict = "not tested" if trace.tests else verdict * (child == kept)
            words = (show_token(round.drafted[child], tokenizer), tests.get(child, ""), verdict)
            shown.append(" ".join(filter(None, words)))
        choice = ("" if trace.tests else
                  f" target {show_token(round.emitted[depth - 1], tokenizer)} of")
        parts.append(f"position {depth}:{choice} " + ", ".join(shown))
    return f"round {number}: " + " | ".join([*parts, *outcome(round, tokenizer)])
