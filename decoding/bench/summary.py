"""The report of a benchmark, in Markdown: tables, and sentences on where speculation loses."""
from decoding.bench.arms import WAYS, Row
from decoding.bench.costs import Costs
from decoding.bench.tables import (
    MISSING,
    best_gamma,
    by_cache,
    by_gamma,
    by_prompt,
    by_way,
    gammas,
    kinds,
    mean,
    select,
    temperatures,
    verify_cost,
    ways,
)
from weights.console import number
from weights.terminal import one_line


def report(rows: list[Row], costs: Costs, command: str) -> str:
    """Return all tables, each under a heading, with the command and the machine they come from."""
    lines = [best_gamma_line(rows, temperature) + "." for temperature in temperatures(rows)]
    parts = ["## Speed-up by prompt", by_prompt(rows),
             "## Speed-up by γ", by_gamma(rows), "\n".join(lines), losses(rows), agreement(rows)]
    if ways(rows) != [WAYS[0]]:
        parts += ["## Speed-up by rule and tree", by_way(rows), *best_by_block(rows)]
    if {row["cache"] for row in rows} != {"both"}:
        parts += ["## With and without a key/value cache", by_cache(rows)]
    parts += ["## What a forward over n tokens costs", verify_cost(costs),
              f"Measured after {costs.held} cached tokens; "
              f"one draft step costs c = {costs.c:.3f} target steps.",
              "## How this was measured", f"    {one_line(command)}", circumstances(rows, costs)]
    return "\n\n".join(parts) + "\n"


def best_gamma_line(rows: list[Row], temperature: float, way: str = WAYS[0]) -> str:
    """Return one sentence: which gamma to take by this rule, and what it gains."""
    start = f"temperature {temperature:g}:" if way == WAYS[0] else (
        f"temperature {temperature:g}, {way} rule:")
    gamma = best_gamma(rows, temperature, way)
    arm = select(rows, gamma=gamma, temperature=temperature, cache="both", way=way)
    speedup = mean(arm, "speedup")
    if speedup is None:
        return f"{start} nothing to compare"
    ours, plain = (number(mean(arm, name), ".1f")
                   for name in ("tokens_per_second", "baseline_tokens_per_second"))
    rates = f"{ours} tokens/s against {plain}"
    if speedup <= 1:
        return (f"{start} speculation loses here; the best of these, gamma {gamma}, decodes at "
                f"{speedup:.2f} times the plain loop's pace, {rates}. Take gamma 0")
    return f"{start} best gamma {gamma}, {speedup:.2f} times as fast as the plain loop, {rates}"


def best_by_block(rows: list[Row]) -> list[str]:
    """Return a sentence for each temperature at which the block rule was tried."""
    found = temperatures(select(rows, way="block"))
    return ["\n".join(best_gamma_line(rows, t, "block") + "." for t in found)] if found else []


def losses(rows: list[Row]) -> str:
    """Return where speculation is slower than the plain loop."""
    lost = []
    for temperature in temperatures(rows):
        for gamma in gammas(rows):
            arm = select(rows, cache="both", way=WAYS[0], temperature=temperature, gamma=gamma)
            for kind in kinds(arm):
                speedup = mean(select(arm, kind=kind), "speedup")
                if speedup is not None and speedup < 1:
                    where = f"{kind} at temperature {temperature:g} with γ = {gamma}"
                    lost.append(f"{where} ({speedup:.2f})")
    if not lost:
        return "Speculation loses on none of these prompts."
    return f"Speculation loses on: {'; '.join(lost)}."


def agreement(rows: list[Row]) -> str:
    """Return whether greedy decoding gave the plain loop's ids."""
    checked = [row for row in rows if row["checked"]]
    ties = [row for row in checked if row["first_difference"] is not None]
    return (f"Greedy ids: {len(checked)} runs compared with the plain loop's, "
            f"{len(checked) - len(ties)} identical, {len(ties)} part from it at a near-tie.")


def circumstances(rows: list[Row], costs: Costs) -> str:
    """Return the settings that all rows have, and what a number includes and what it does not."""
    shared = rows[0]["settings"]
    loading = ", ".join(f"{role} {seconds:.1f} s" for role, seconds in costs.load_seconds.items())
    repeats = max(row["repeat"] for row in rows) + 1
    return (f"{shared['processor']}, {shared['threads']} threads, {shared['device']}, "
            f"{shared['dtype']}, layout {shared['layout']} with head {shared['head']}, "
            f"the draft's {shared['draft_layout']} with {shared['draft_head']}; "
            f"torch {shared['torch']}, "
            f"Python {shared['python']}; seed {shared['seed']}; "
            f"end-of-text {shared['end_of_text']}. Tokens per second count the new ids after the "
            f"prefill; loading ({loading or MISSING}) is in no number. A test is one prompt at one "
            f"length; its number is the median of its {repeats} repeats, arms taken in turn.")
