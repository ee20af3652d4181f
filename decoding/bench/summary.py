"""What the rows say, in Markdown ready for a README: tables, and the sentences that keep them honest."""
from decoding.bench.costs import Costs
from decoding.bench.tables import (
    MISSING,
    Row,
    best_gamma,
    by_cache,
    by_gamma,
    by_prompt,
    gammas,
    mean,
    select,
    temperatures,
    verify_cost,
)


def report(rows: list[Row], costs: Costs, command: str) -> str:
    """All tables, each under a heading, with the command and the machine they were made by."""
    parts = ["## Speed-up by prompt", by_prompt(rows),
             "## Speed-up by γ", by_gamma(rows),
             "\n".join(best_gamma_line(rows, temperature) + "." for temperature in temperatures(rows)),
             losses(rows), agreement(rows)]
    if {row["cache"] for row in rows} != {"both"}:
        parts += ["## With and without a key/value cache", by_cache(rows)]
    parts += ["## What a forward over n tokens costs", verify_cost(costs),
              f"Measured behind {costs.held} cached tokens; one draft step costs c = {costs.c:.3f} target steps.",
              "## How this was measured", f"    {command}", circumstances(rows, costs)]
    return "\n\n".join(parts) + "\n"


def best_gamma_line(rows: list[Row], temperature: float) -> str:
    """One sentence: which gamma to take, and what it gains."""
    gamma = best_gamma(rows, temperature)
    if gamma is None:
        return f"temperature {temperature:g}: nothing to compare"
    arm = select(rows, gamma=gamma, temperature=temperature, cache="both")
    speedup = mean(arm, "speedup")
    rates = f"{mean(arm, 'tokens_per_second'):.1f} tokens/s against {mean(arm, 'baseline_tokens_per_second'):.1f}"
    if speedup <= 1:
        return (f"temperature {temperature:g}: speculation loses here; the best of these, gamma {gamma}, decodes at "
                f"{speedup:.2f} times the plain loop's pace, {rates}. Take gamma 0")
    return f"temperature {temperature:g}: best gamma {gamma}, {speedup:.2f} times as fast as the plain loop, {rates}"


def losses(rows: list[Row]) -> str:
    """Where speculation is slower than the plain loop."""
    lost = []
    for temperature in temperatures(rows):
        for gamma in gammas(rows):
            arm = select(rows, cache="both", temperature=temperature, gamma=gamma)
            for kind in dict.fromkeys(row["kind"] for row in arm):
                speedup = mean(select(arm, kind=kind), "speedup")
                if speedup is not None and speedup < 1:
                    lost.append(f"{kind} at temperature {temperature:g} with γ = {gamma} ({speedup:.2f})")
    return f"Speculation loses on: {'; '.join(lost)}." if lost else "Speculation loses on none of these prompts."


def agreement(rows: list[Row]) -> str:
    """Whether greedy decoding gave the plain loop's ids."""
    checked = [row for row in rows if row["checked"]]
    ties = [row for row in checked if row["first_difference"] is not None]
    return (f"Greedy ids: {len(checked)} runs compared with the plain loop's, {len(checked) - len(ties)} identical, "
            f"{len(ties)} part from it at a near-tie.")


def circumstances(rows: list[Row], costs: Costs) -> str:
    """The settings that all rows share, and what is in a number and what is not."""
    shared = rows[0]["settings"]
    loading = ", ".join(f"{role} {seconds:.1f} s" for role, seconds in costs.load_seconds.items()) or MISSING
    return (f"{shared['processor']}, {shared['threads']} threads, {shared['device']}, {shared['dtype']}, linear layers: {shared['linear']}; "
            f"torch {shared['torch']}, Python {shared['python']}; seed {shared['seed']}; "
            f"end-of-text {shared['end_of_text']}. Tokens per second count the new ids after the prefill; loading "
            f"({loading}) is in no number. A test is one prompt at one length; its number is the median of its "
            f"{max(row['repeat'] for row in rows) + 1} repeats, arms taken in turn.")
