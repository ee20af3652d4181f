"""The plots of a benchmark: speed-up, acceptance, and what a forward pass and a round cost.

Drawn on figures of their own, so no display is needed and nobody's matplotlib settings change.
Readable when projected and in black and white: markers and line styles tell lines apart, not
colour. Where the two models are drawn, the target is blue and the draft orange.
"""
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from decoding.bench.arms import WAYS, Row
from decoding.bench.costs import Costs
from decoding.bench.tables import gammas, mean, medians, pooled, select, temperatures, values
from weights.output import replacing

Style = dict[str, Any]
TARGET: Style = {"color": "tab:blue", "linestyle": "-", "marker": "o"}
DRAFT: Style = {"color": "tab:orange", "linestyle": "--", "marker": "s"}
STYLES: list[Style] = [  # of lines that are about neither model
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "tab:purple", "linestyle": "--", "marker": "s"},
    {"color": "tab:brown", "linestyle": ":", "marker": "^"},
    {"color": "tab:gray", "linestyle": "-.", "marker": "D"}]
LOOK: Style = {"linewidth": 2.2, "markersize": 8, "markerfacecolor": "white", "markeredgewidth": 2}
SIZE = 13  # points of text
GAMMA_AXIS = "γ, tokens drafted per round"


def write_plots(folder: Path, rows: list[Row], costs: Costs) -> list[Path]:
    """Draw every plot the rows have numbers for. Return the files."""
    cached = select(rows, cache="both", way=WAYS[0])
    speculative = [row for row in cached if row["gamma"] > 0]
    figures = {
        "speedup_by_gamma": panels(cached, speedup_by_gamma),
        "speedup_by_gamma_and_length": panels(cached, heat_map),
        "acceptance_by_position": single(acceptance_by_position, speculative),
        "acceptance_by_temperature": single(acceptance_by_temperature, speculative),
        "verify_cost": single(verify_cost, costs),
        "time_per_round": single(time_per_round, costs),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.png")
        with replacing(paths[-1]) as file:
            figure.savefig(file, dpi=110, format="png")
    return paths


def single(draw: Callable[[Axes, Any], None], numbers: list[Row] | Costs) -> Figure:
    """Return a figure of one panel."""
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    draw(figure.add_subplot(), numbers)
    return figure


def panels(rows: list[Row], draw: Callable[[Axes, list[Row]], None]) -> Figure:
    """Return a figure with one panel for each temperature."""
    found = temperatures(rows)
    figure = Figure(figsize=(1 + 6.5 * len(found), 5.5), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for ax, temperature in zip(axes, found):
        draw(ax, select(rows, temperature=temperature))
        greedy = " (greedy)" if temperature == 0 else ""
        ax.set_title(f"temperature {temperature:g}{greedy}", fontsize=SIZE)
        ax.label_outer()
    return figure


def line(ax: Axes, points: Mapping[Any, float | None], label: str, style: Style) -> None:
    """Draw the points that have a value."""
    known = {x: y for x, y in points.items() if y is not None}
    ax.plot(list(known), list(known.values()), label=label, **style, **LOOK)


def speedup_by_gamma(ax: Axes, rows: list[Row]) -> None:
    """Draw the speed-up in the rounds the formula speaks of, and what the formula predicts.

    A bar spans the middle half of the tests.
    """
    labels = {"full_rounds_speedup": "measured, rounds with k = γ",
              "predicted_speedup_paper": "formula, paper's v = 1",
              "predicted_speedup": "formula, measured v"}
    arms = {gamma: select(rows, gamma=gamma) for gamma in gammas(rows)}
    for style, (name, label) in zip(STYLES, labels.items()):
        line(ax, {gamma: mean(arm, name) for gamma, arm in arms.items()}, label, style)
    for gamma, arm in arms.items():
        if values(arm, "full_rounds_speedup"):
            found = sorted(medians(arm, "full_rounds_speedup"))
            quarter = len(found) // 4
            ax.plot([gamma, gamma], [found[quarter], found[-1 - quarter]],
                    color="black", linewidth=1.2)
    ax.axhline(1, color="black", linewidth=2)
    ax.axhline(0, color="black", linewidth=0)  # so that the axis begins at nothing
    ax.annotate("break-even", (0, 1), xycoords=("axes fraction", "data"), xytext=(6, -16),
                textcoords="offset points", fontsize=SIZE - 1)
    finish(ax, GAMMA_AXIS, "speed-up over the plain loop, times", gammas(rows), "lower right")


def heat_map(ax: Axes, rows: list[Row]) -> None:
    """Draw the mean speed-up for each gamma and length."""
    lengths = sorted({row["length"] for row in rows})
    cells = [[mean(select(rows, gamma=gamma, length=length), "speedup") for gamma in gammas(rows)]
             for length in lengths]
    shown = [[float("nan") if cell is None else cell for cell in strip] for strip in cells]
    ax.imshow(shown, cmap="Greys", vmin=0.5, vmax=4, aspect="auto", origin="lower")
    for y, strip in enumerate(cells):
        for x, cell in enumerate(strip):
            text = "n/a" if cell is None else f"{cell:.2f}" + ("\nloses" if cell < 1 else "")
            ax.text(x, y, text, ha="center", va="center", fontsize=SIZE)
    finish(ax, GAMMA_AXIS, "length, new tokens")
    ax.grid(False)
    ax.set_xticks(range(len(gammas(rows))), [str(gamma) for gamma in gammas(rows)])
    ax.set_yticks(range(len(lengths)), [str(length) for length in lengths])


def acceptance_by_position(ax: Axes, rows: list[Row]) -> None:
    """Draw, for each position of a block, which part of the tokens tested there is accepted.

    At the largest gamma.
    """
    gamma = max(gammas(rows))
    for style, temperature in zip(cycle(STYLES), temperatures(rows)):
        found = select(rows, gamma=gamma, temperature=temperature)
        tested, accepted = ([sum(row[name][i] for row in found) for i in range(gamma)]
                            for name in ("tested_by_position", "accepted_by_position"))
        points = {i + 1: accepted[i] / tested[i] for i in range(gamma) if tested[i] > 0}
        line(ax, points, f"temperature {temperature:g}", style)
    finish(ax, f"position in the block of γ = {gamma} drafted tokens", "accepted / tested",
           range(1, gamma + 1), "lower left")
    ax.set_ylim(0, 1.02)


def acceptance_by_temperature(ax: Axes, rows: list[Row]) -> None:
    """Draw three numbers that are all called the acceptance rate."""
    gamma = min(gammas(rows), key=lambda gamma: abs(gamma - 4))
    found = {t: select(rows, gamma=gamma, temperature=t) for t in temperatures(rows)}
    lines: dict[str, Callable[[list[Row]], float | None]] = {
        "α = mean Σ min(p, q), no draws": lambda group: mean(group, "alpha"),
        "accepted / tested": lambda group: pooled(group, "accepted", "tested"),
        "accepted / drafted": lambda group: pooled(group, "accepted", "drafted")}
    for style, (label, number) in zip(STYLES, lines.items()):
        line(ax, {t: number(group) for t, group in found.items()}, label, style)
    finish(ax, "temperature", f"part of the drafted tokens, γ = {gamma}", list(found), "lower left")
    ax.set_ylim(0, 1.02)


def verify_cost(ax: Axes, costs: Costs) -> None:
    """Draw T(n)/T(1) of both models: speculation pays off where this curve is flat."""
    n = range(1, len(costs.target) + 1)
    for role, seconds, style in (("target", costs.target, TARGET), ("draft", costs.draft, DRAFT)):
        points = {i: s / seconds[0] for i, s in zip(n, seconds)}
        line(ax, points, f"{role}, T(1) = {1000 * seconds[0]:.1f} ms", style)
    top = ax.get_ylim()[1]
    ax.plot(n, n, color="grey", linewidth=1.2, linestyle=(0, (1, 3)),
            label="n steps one by one: nothing gained")
    ax.axhline(1, color="black", linewidth=1)
    finish(ax, "n, tokens in one forward", "T(n) / T(1), times", [1, *n[1::2]], "lower right")
    ax.set_ylim(0, max(1.5, 1.1 * top))


def time_per_round(ax: Axes, costs: Costs) -> None:
    """Draw where the time of a round goes, for each gamma, beside one plain step."""
    found = {gamma: phases for gamma, phases in costs.phases.items() if phases is not None}
    bottoms = [0.0] * len(found)
    for phase, label, hatch, shade in (("draft", "drafting", "//", "white"),
                                       ("verify", "verifying", "", "lightgrey"),
                                       ("accept", "deciding", "", "black")):
        heights = [1000 * phases[phase] for phases in found.values()]
        ax.bar(list(found), heights, bottom=bottoms, label=label, hatch=hatch, color=shade,
               edgecolor="black", width=0.6)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    ax.axhline(1000 * costs.target[0], color="black", linewidth=1.5, linestyle="--",
               label="one target step")
    finish(ax, GAMMA_AXIS, "time per round, ms", legend="upper left")


def finish(ax: Axes, x: str, y: str, ticks: Iterable[float] | None = None,
           legend: Any = None) -> None:
    """Give the axes labels that can be read from the back of a room.

    legend: where it goes, if there is one.
    """
    ax.set_xlabel(x, fontsize=SIZE)
    ax.set_ylabel(y, fontsize=SIZE)
    ax.tick_params(labelsize=SIZE - 1)
    ax.grid(color="lightgrey", linewidth=0.6)
    ax.set_axisbelow(True)
    if ticks is not None:
        ax.set_xticks(list(ticks))
    if legend is not None:  # bars are stacked upwards
        ax.legend(fontsize=SIZE - 1, loc=legend, reverse=legend == "upper left")
