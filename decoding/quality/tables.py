"""The table of an evaluation, in Markdown: scores, pace, and what became of greedy texts."""
from collections import defaultdict

from decoding.compare import how_close
from decoding.quality.intervals import mean_of, paired_test
from decoding.quality.rows import ARMS, Row
from decoding.quality.scores import Scores, by_problem
from decoding.result import ratio
from weights.console import number


def table(rows: list[Row], greedy: bool) -> str:
    """Return all that is to be said about the rows. greedy: the texts should be the same.

    Scores are shown once all rows have them.
    """
    scored = all(row["plain"]["scores"] is not None for row in rows)
    parts = [score_table(rows)] if scored else []
    parts.append(pace_table(rows))
    if greedy:
        parts.append(identity(rows))
    return "\n\n".join(parts)


def score_table(rows: list[Row]) -> str:
    """Return a line for each score: both means with intervals, their difference, and its p."""
    of_problems = {arm: problem_scores(rows, arm) for arm in ARMS}
    n, samples = len(of_problems["plain"]), len(rows) / len(of_problems["plain"])
    lines = [f"{n} problems, {samples:g} sample{'s' * (samples != 1)} each; "
             "in brackets 95 % intervals over problems",
             "", "| score | plain | speculative | plain − speculative | p of no difference |",
             "|---|---|---|---|---|"]
    for name in of_problems["plain"][0]:
        plain, fast = ([scores[name] for scores in of_problems[arm]] for arm in ARMS)
        differences = [a - b for a, b in zip(plain, fast)]
        lines.append(f"| {name} | {mean_of(plain)} | {mean_of(fast)} | {mean_of(differences)} "
                     f"| {paired_test(differences):.2f} |")
    return "\n".join(lines)


def problem_scores(rows: list[Row], arm: str) -> list[Scores]:
    """Return the scores of each problem, over its samples."""
    found = defaultdict(list)
    for row in rows:
        found[row["problem"]].append(row[arm]["scores"])
    return [by_problem(scores) for scores in found.values()]


def pace_table(rows: list[Row]) -> str:
    """Return tokens per second of both loops, and what of the draft was kept."""
    total = {arm: {key: sum(row[arm][key] for row in rows) for key in
                   ("new_tokens", "rounds", "drafted", "tested", "accepted", "seconds")}
             for arm in ARMS}
    pace = {arm: ratio(sums["new_tokens"], sums["seconds"]) for arm, sums in total.items()}
    fast = total["speculative"]
    cells = [number(pace["plain"], ".1f"), number(pace["speculative"], ".1f"),
             number(ratio(pace["speculative"] or 0, pace["plain"] or 0), ".2f"),
             number(ratio(fast["accepted"], fast["tested"]), ".3f"),
             number(ratio(fast["accepted"], fast["drafted"]), ".3f"),
             number(ratio(fast["new_tokens"], fast["rounds"]), ".2f")]
    return ("| tokens/s, plain | speculative | speed-up | accepted/tested | accepted/drafted "
            "| tokens per round |\n" + "|---" * 6 + "|\n| " + " | ".join(cells) + " |")


def identity(rows: list[Row]) -> str:
    """Return how many greedy texts differ, and for each whether it is a near-tie or a fault."""
    different = [row for row in rows if row["difference"] is not None]
    lines = [f"{len(rows) - len(different)} of {len(rows)} greedy texts have identical ids"]
    for row in different:
        found = row["difference"]
        gap = ("one text ends there" if found["gap"] is None else
               how_close(found["gap"], found["limit"]))
        what = "near-tie" if found["verdict"] == "near-tie" else "FAULT"
        lines.append(f"- problem {row['problem']}: {what} at new token {found['index']}, {gap}")
    return "\n".join(lines)
