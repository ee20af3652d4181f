"""One picture of a whole run: what became of each drafted token, and how long each round took.

Rounds go from left to right, the tokens of a round upwards.
"""
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decoding.result import Generation, Round

# Orange is the draft's, blue the target's, green what both agreed on. Readable in black and white:
# each fate has its own marker, and only what was emitted is filled.
FATES: dict[str, dict] = {
    "accepted": {"marker": "s", "color": "tab:green"},
    "rejected": {"marker": "x", "color": "tab:orange"},
    "not tested": {"marker": "s", "color": "tab:orange", "facecolor": "none"},
    "correction": {"marker": "^", "color": "tab:blue"},
    "bonus": {"marker": "*", "color": "tab:blue", "s": 90},
}


def draw_run(run: Generation, rounds: slice = slice(None)) -> Figure:
    """Draw the drafted tokens of `rounds`, the token that ended each, and its milliseconds."""
    shown = list(enumerate(run.rounds, start=1))[rounds]
    height = max(4.5, 1.8 + 0.3 * (run.gamma + 1))  # so that markers never touch
    figure = Figure(figsize=(10, height), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    points = [(number, *point) for number, round in shown for point in fates(round)]
    for fate, style in FATES.items():
        above = 0.4 if fate == "correction" else 0  # the rejected token has the same position
        xs = [number for number, _, what in points if what == fate]
        ys = [position + above for _, position, what in points if what == fate]
        top.scatter(xs, ys, label=fate, **({"s": 40} | style))
    top.set_ylabel("position in the round")
    top.set_yticks(range(1, run.gamma + 2))
    top.set_title(f"{run.new_tokens} tokens in {len(run.rounds)} rounds, gamma = {run.gamma}")
    top.legend(loc="upper left", bbox_to_anchor=(1, 1))
    bottom.bar([number for number, _ in shown], [1000 * round.seconds for _, round in shown],
               color="tab:gray")
    bottom.set_ylabel("time (ms)")
    bottom.set_xlabel("round")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def fates(round: Round) -> list[tuple[int, str]]:
    """Return (position from 1, fate) of each drafted token, and last of the extra token."""
    points = [(i + 1, "accepted" if i < round.accepted
               else "rejected" if i < round.tested else "not tested")
              for i in range(len(round.drafted))]
    if round.extra is not None:
        points.append((round.accepted + 1, round.kind))
    return points
