"""The one table of a comparison with another library, and what is said below it. Imports no torch.
"""
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from decoding.bench.clean import can_tell
from decoding.bench.turns import Record


@dataclass(frozen=True)
class Row:
    """One way to decode, done by ours and by the other library."""

    weights: str  # their number format
    models: str
    gamma: int  # 0 is the plain loop
    ours: Record
    theirs: Record
    limit_seconds: float  # what reading the weights of a round takes at least
    our_plain: Record
    their_plain: Record
    expected: list[int]  # the right ids


def header(peer: str) -> str:
    """Return the first two lines of the table."""
    columns = ["weights", "models", "decoding", "ours, tokens/s (quartiles)", "of the limit",
               "clean rounds", f"{peer}, tokens/s (quartiles)", "of the limit", "clean rounds",
               f"ours over {peer}", "ours over our plain", f"{peer} over its plain", "ids"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def line(row: Row) -> str:
    """Return a row as a line of the table."""
    decoding = f"speculative, γ = {row.gamma}" if row.gamma else "plain"
    cells = [row.weights, row.models, decoding, *side(row.ours, row.limit_seconds),
             *side(row.theirs, row.limit_seconds), ratio(row.ours, row.theirs),
             ratio(row.ours, row.our_plain) if row.gamma else "",
             ratio(row.theirs, row.their_plain) if row.gamma else "", ids(row)]
    return f"| {' | '.join(cells)} |"


def side(record: Record, limit_seconds: float) -> list[str]:
    """Return the cells of one contestant: its speed, its share of the limit, its clean rounds."""
    clean = f"{len(record.clean)}/{len(record.timed)}"
    if record.tokens_per_second is None:
        return ["n/a", "n/a", clean]
    spread = "" if record.quartiles is None else " ({:.2f}–{:.2f})".format(*record.quartiles)
    return [f"{record.tokens_per_second:.2f}{spread}",
            f"{limit_seconds / median(record.clean):.0%}", clean]


def ratio(record: Record, other: Record) -> str:
    """Return how many times as fast one is as the other."""
    if record.tokens_per_second is None or other.tokens_per_second is None:
        return "n/a"
    return f"{record.tokens_per_second / other.tokens_per_second:.2f}"


def ids(row: Row) -> str:
    """Return "equal", or whose ids are not the right ones, and from which new token on."""
    places = {who: [first_difference(run, row.expected) for run in record.runs]
              for who, record in (("ours", row.ours), ("theirs", row.theirs))}
    wrong = {who: min(filter(None, found)) for who, found in places.items() if any(found)}
    return ", ".join(f"{who} DIFFERENT from token {n} on" for who, n in wrong.items()) or "equal"


def first_difference(run: Sequence[int], expected: Sequence[int]) -> int | None:
    """Return the number of the first new token that differs, counted from 1; None if none does."""
    pairs = enumerate(zip(run, expected, strict=True), 1)
    return next((n for n, (token, right) in pairs if token != right), None)


def impossible(row: Row) -> str | None:
    """Return a line if a round was faster than its weights can be read: then the limit is wrong."""
    fastest = min([*row.ours.timed, *row.theirs.timed], default=row.limit_seconds)
    if fastest >= row.limit_seconds:
        return None
    return (f"The limit is WRONG for {row.weights}, {row.models}, γ = {row.gamma}: a round took "
            f"{1000 * fastest:.1f} ms, and reading its weights {1000 * row.limit_seconds:.1f} ms. "
            "The memory was read too slowly: measure again.")


EXPLANATION = (
    "Tokens/s: tokens per round over the median time of the clean rounds, those in which no thread "
    "of either program waited for a core; in brackets the quartiles. The first round of each turn "
    "is not timed, so prompts are not part of it. The limit: reading the weights of a round once, "
    "the target's, and the draft's γ times.")


def explanation() -> str:
    """Return how the table is to be read."""
    untold = "" if can_tell() else (" This system does not say which threads waited for a core: "
                                    "all timed rounds were taken for clean.")
    return EXPLANATION + untold
