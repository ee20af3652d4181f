"""Makes Markdown tables of rows.

A test is one arm on one task; its number is the median over the repeats. A mean is one over tests.
"""
from collections.abc import Callable, Iterable
from statistics import fmean, median
from typing import Any

from decoding.bench.arms import WAYS, Row
from decoding.bench.costs import Costs
from weights.console import number
from weights.terminal import one_line

MISSING = "n/a"
Column = Callable[[Any], str]  # what a column shows of one group of rows


def select(rows: list[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have all these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values(rows: list[Row], name: str) -> list[float]:
    """Return what the rows have under this name, without those that have nothing."""
    return [row[name] for row in rows if row[name] is not None]


def by_test(rows: list[Row]) -> list[list[Row]]:
    """Return the rows of each test together: the same prompt, length, temperature and arm."""
    names = ("prompt_sha256", "length", "temperature", "gamma", "cache", "way")
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(groups.values())


def medians(rows: list[Row], name: str) -> list[float]:
    """Return the number of each test that has one: the median over its repeats."""
    return [median(found) for found in (values(test, name) for test in by_test(rows)) if found]


def mean(rows: list[Row], name: str) -> float | None:
    """Return the mean over the tests; None where no row has a value."""
    found = medians(rows, name)
    return fmean(found) if found else None


def pooled(rows: list[Row], part: str, whole: str) -> float | None:
    """Return the sum of the parts over the sum of the wholes, in all rows together."""
    total = sum(row[whole] for row in rows)
    return sum(row[part] for row in rows) / total if total else None


def spread(rows: list[Row], name: str) -> str:
    """Return the lowest and the highest single run."""
    found = values(rows, name)
    return f"{min(found):.2f}–{max(found):.2f}" if found else MISSING


def gammas(rows: list[Row], way: str = WAYS[0]) -> list[int]:
    return sorted({row["gamma"] for row in rows if row["gamma"] > 0 and row["way"] == way})


def ways(rows: list[Row]) -> list[str]:
    """Return the rules and the trees that drafted tokens were judged by."""
    return list(dict.fromkeys(row["way"] for row in rows if row["gamma"] > 0))


def temperatures(rows: list[Row]) -> list[float]:
    return sorted({row["temperature"] for row in rows})


def kinds(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["kind"] for row in rows))


def best_gamma(rows: list[Row], temperature: float, way: str = WAYS[0]) -> int | None:
    """Return the gamma with the highest mean speed-up by this rule, all models cached.

    None where no speed-up was measured.
    """
    cached = select(rows, temperature=temperature, cache="both", way=way)
    found = {gamma: mean(select(cached, gamma=gamma), "speedup") for gamma in gammas(cached, way)}
    measured = {gamma: speedup for gamma, speedup in found.items() if speedup is not None}
    return max(measured, key=lambda gamma: measured[gamma]) if measured else None


def markdown(columns: dict[str, Column], groups: Iterable) -> str:
    """Return a table: for each group, what each column's function makes of it."""
    cells = ([column(group) for column in columns.values()] for group in groups)
    lines = [list(columns), ["---"] * len(columns),
             *([one_line(cell).replace("|", r"\|") for cell in line] for line in cells)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def average(name: str, form: str) -> Column:
    """Return a column: the mean of this number."""
    return lambda group: number(mean(group, name), form)


def rate(part: str, whole: str) -> Column:
    """Return a column: this part of this whole, and both counts, for a rate of few says little."""
    def show(group: list[Row]) -> str:
        counts = "/".join(str(sum(row[name] for row in group)) for name in (part, whole))
        share = pooled(group, part, whole)
        return MISSING if share is None else f"{counts} = {share:.2f}"
    return show


TEMPERATURE: dict[str, Column] = {"temperature": lambda g: f"{g[0]['temperature']:g}"}
TESTS: dict[str, Column] = {"tests": lambda g: str(len(by_test(g)))}


def by_prompt(rows: list[Row]) -> str:
    """Return acceptance rate and speed-up of each prompt, at the best gamma of each temperature."""
    cached = select(rows, cache="both", way=WAYS[0])
    groups = [select(cached, kind=kind, temperature=t, gamma=best_gamma(rows, t))
              for t in temperatures(rows) for kind in kinds(rows)]
    return markdown({
        "pair": lambda g: f"{g[0]['settings']['target']} / {g[0]['settings']['draft']}",
        "prompt": lambda g: g[0]["kind"],
        "its tokens": lambda g: str(g[0]["prompt_tokens"]),
        **TEMPERATURE,
        "γ": lambda g: str(g[0]["gamma"]),
        "acceptance rate (accepted/tested)": rate("accepted", "tested"),
        "α = mean Σ min(p, q)": average("alpha", ".2f"),
        "speed-up": average("speedup", ".2f"),
        "lowest to highest run": lambda g: spread(g, "speedup"),
    }, filter(None, groups))


def by_gamma(rows: list[Row]) -> str:
    """Return speed-up and tokens per second of each gamma, and what the closed forms predict."""
    groups = [select(rows, cache="both", way=WAYS[0], gamma=gamma, temperature=t)
              for t in temperatures(rows) for gamma in gammas(rows)]
    return markdown({
        **TEMPERATURE,
        "γ": lambda g: str(g[0]["gamma"]),
        "mean speed-up": average("speedup", ".2f"),
        "tokens/s": average("tokens_per_second", ".1f"),
        "plain tokens/s": average("baseline_tokens_per_second", ".1f"),
        "latency": latency,
        "tokens per round": average("tokens_per_round", ".2f"),
        "accepted/drafted": rate("accepted", "drafted"),
        "predicted, paper (v = 1)": average("predicted_speedup_paper", ".2f"),
        "predicted, measured v": average("predicted_speedup", ".2f"),
        "rounds with k = γ": average("full_rounds_speedup", ".2f"),
        **TESTS,
    }, filter(None, groups))


def latency(group: list[Row]) -> str:
    """Return how much more or less time a token takes than in the plain loop."""
    saved = mean(group, "latency_reduction_percent")
    return number(None if saved is None else -saved, "+.0f") + " %"


def by_way(rows: list[Row]) -> str:
    """Return what each rule and each tree gains; for a tree γ is its depth.

    Where drafted tokens are not judged one by one, there is no α, and no formula for the speed-up.
    """
    groups = [select(rows, cache="both", way=way, gamma=gamma, temperature=t)
              for t in temperatures(rows) for way in ways(rows) for gamma in gammas(rows, way)]
    return markdown({
        **TEMPERATURE,
        "rule or tree": lambda g: g[0]["way"],
        "γ": lambda g: str(g[0]["gamma"]),
        "drafted per round": rate("drafted", "rounds"),
        "tokens per round": average("tokens_per_round", ".2f"),
        "accepted/drafted": rate("accepted", "drafted"),
        "mean speed-up": average("speedup", ".2f"),
        "tokens/s": average("tokens_per_second", ".1f"),
        **TESTS,
    }, filter(None, groups))


def by_cache(rows: list[Row]) -> str:
    """Return tokens per second of every cache policy, over the plain loop of the same policy."""
    caches = dict.fromkeys(row["cache"] for row in rows)
    groups = [select(rows, cache=cache, gamma=gamma, temperature=t) for t in temperatures(rows)
              for gamma in [0, *gammas(rows)] for cache in caches]
    return markdown({
        **TEMPERATURE,
        "γ": lambda g: str(g[0]["gamma"] or "plain"),
        "cache": lambda g: g[0]["cache"],
        "tokens/s": average("tokens_per_second", ".1f"),
        "speed-up": average("speedup", ".2f"),
        **TESTS,
    }, filter(None, groups))


def verify_cost(costs: Costs) -> str:
    """Return T(n), and T(n)/T(1), of both models."""
    def column(seconds: list[float]) -> Column:
        return lambda n: f"{1000 * seconds[n - 1]:.2f} ms, {seconds[n - 1] / seconds[0]:.2f}"
    return markdown({"n": str,
                     "target T(n), T(n)/T(1)": column(costs.target),
                     "draft T(n), T(n)/T(1)": column(costs.draft)},
                    range(1, len(costs.target) + 1))
