"""Rows become Markdown tables. A number here is a median over the repeats of one task, or a mean of such medians."""
from collections.abc import Callable, Iterable
from statistics import fmean, median

from decoding.bench.costs import Costs
from weights.console import number

Row = dict
MISSING = "n/a"


def select(rows: list[Row], **wanted) -> list[Row]:
    """The rows that have all these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values(rows: list[Row], name: str) -> list[float]:
    """What the rows have under this name, without those that have nothing."""
    return [row[name] for row in rows if row[name] is not None]


def tasks(rows: list[Row]) -> list[list[Row]]:
    """The repeats of each task together: same prompt, length and temperature, and the same arm."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[n] for n in ("prompt_sha256", "length", "temperature", "gamma", "cache")), []).append(row)
    return list(groups.values())


def medians(rows: list[Row], name: str) -> list[float]:
    """The number of each test: the median over the repeats of its task, for those that have a value."""
    return [median(found) for found in (values(task, name) for task in tasks(rows)) if found]


def mean(rows: list[Row], name: str) -> float | None:
    """The mean over the tests; None where no row has a value."""
    found = medians(rows, name)
    return fmean(found) if found else None


def share(rows: list[Row], part: str, whole: str) -> float | None:
    """Counts of all rows together: sum of the parts over sum of the wholes."""
    total = sum(row[whole] for row in rows)
    return sum(row[part] for row in rows) / total if total else None


def spread(rows: list[Row], name: str) -> str:
    """From the lowest to the highest single run."""
    found = values(rows, name)
    return f"{min(found):.2f}–{max(found):.2f}" if found else MISSING


def gammas(rows: list[Row]) -> list[int]:
    return sorted({row["gamma"] for row in rows if row["gamma"] > 0})


def best_gamma(rows: list[Row], temperature: float) -> int | None:
    """The gamma with the highest mean speed-up, all models cached; None where no speed-up was measured."""
    found = {gamma: mean(select(rows, gamma=gamma, temperature=temperature, cache="both"), "speedup") for gamma in gammas(rows)}
    found = {gamma: speedup for gamma, speedup in found.items() if speedup is not None}
    return max(found, key=found.get) if found else None


def markdown(header: dict[str, Callable], groups: Iterable) -> str:
    """A table: for each group, what each column's function makes of it."""
    lines = [list(header), ["---"] * len(header), *([column(group) for column in header.values()] for group in groups)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def by_prompt(rows: list[Row]) -> str:
    """Pair, prompt, acceptance rate, speed-up, at the best gamma of each temperature."""
    cached = select(rows, cache="both")
    groups = [select(cached, kind=kind, temperature=t, gamma=best_gamma(rows, t))
              for t in temperatures(rows) for kind in dict.fromkeys(row["kind"] for row in rows)]
    return markdown({
        "pair": lambda g: f"{g[0]['settings']['target']} / {g[0]['settings']['draft']}",
        "prompt": lambda g: g[0]["kind"],
        "temperature": lambda g: f"{g[0]['temperature']:g}",
        "γ": lambda g: str(g[0]["gamma"]),
        "acceptance rate (accepted/tested)": lambda g: number(share(g, "accepted", "tested"), ".2f"),
        "α = mean Σ min(p, q)": lambda g: number(mean(g, "alpha"), ".2f"),
        "speed-up": lambda g: number(mean(g, "speedup"), ".2f"),
        "lowest to highest run": lambda g: spread(g, "speedup"),
    }, filter(None, groups))


def by_gamma(rows: list[Row]) -> str:
    """Gamma, mean speed-up, tokens per second, number of tests, beside what the closed forms predict."""
    groups = [select(rows, cache="both", gamma=gamma, temperature=t) for t in temperatures(rows) for gamma in gammas(rows)]
    return markdown({
        "temperature": lambda g: f"{g[0]['temperature']:g}",
        "γ": lambda g: str(g[0]["gamma"]),
        "mean speed-up": lambda g: number(mean(g, "speedup"), ".2f"),
        "tokens/s": lambda g: number(mean(g, "tokens_per_second"), ".1f"),
        "plain tokens/s": lambda g: number(mean(g, "baseline_tokens_per_second"), ".1f"),
        "latency": lambda g: number(minus(mean(g, "latency_reduction_percent")), "+.0f") + " %",
        "tokens per round": lambda g: number(mean(g, "tokens_per_round"), ".2f"),
        "accepted/drafted": lambda g: number(share(g, "accepted", "drafted"), ".2f"),
        "predicted, paper (v = 1)": lambda g: number(mean(g, "predicted_speedup_paper"), ".2f"),
        "predicted, measured v": lambda g: number(mean(g, "predicted_speedup"), ".2f"),
        "rounds with k = γ": lambda g: number(mean(g, "full_rounds_speedup"), ".2f"),
        "tests": lambda g: str(len(tasks(g))),
    }, filter(None, groups))


def by_cache(rows: list[Row]) -> str:
    """Every cache policy; a speed-up only over the plain loop of the same policy."""
    groups = [select(rows, cache=cache, gamma=gamma, temperature=t) for t in temperatures(rows)
              for gamma in [0, *gammas(rows)] for cache in dict.fromkeys(row["cache"] for row in rows)]
    return markdown({
        "temperature": lambda g: f"{g[0]['temperature']:g}",
        "γ": lambda g: str(g[0]["gamma"] or "plain"),
        "cache": lambda g: g[0]["cache"],
        "tokens/s": lambda g: number(mean(g, "tokens_per_second"), ".1f"),
        "speed-up": lambda g: number(mean(g, "speedup"), ".2f"),
        "tests": lambda g: str(len(tasks(g))),
    }, filter(None, groups))


def verify_cost(costs: Costs) -> str:
    """T(n), and T(n)/T(1), of both models."""
    def cell(seconds: list[float]) -> Callable:
        return lambda n: f"{1000 * seconds[n - 1]:.2f} ms, {seconds[n - 1] / seconds[0]:.2f}"
    return markdown({"n": str, "target T(n), T(n)/T(1)": cell(costs.target), "draft T(n), T(n)/T(1)": cell(costs.draft)},
                    range(1, len(costs.target) + 1))


def temperatures(rows: list[Row]) -> list[float]:
    return sorted({row["temperature"] for row in rows})


def minus(value: float | None) -> float | None:
    return None if value is None else -value
