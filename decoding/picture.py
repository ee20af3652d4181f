"""One picture of a whole run: rounds from left to right, drafted tokens upwards, what became of each, and the times."""
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decoding.result import Generation, Round

# Readable in black and white: each fate has its own marker, and only what was emitted is filled.
FATES = {
    "accepted": {"marker": "s", "color": "tab:green"},
    "rejected": {"marker": "x", "color": "tab:red"},
    "not tested": {"marker": "s", "color": "tab:gray", "facecolor": "none"},
    "correction": {"marker": "^", "color": "tab:orange"},
    "bonus": {"marker": "*", "color": "tab:blue", "s": 90},
}


def draw_run(run: Generation, rounds: slice = slice(None)) -> Figure:
    """The drafted tokens of the given rounds and the token that ended each, and below the milliseconds each round took."""
    shown = list(enumerate(run.rounds, start=1))[rounds]
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    points = [(number, *point) for number, round in shown for point in fates(round)]
    for fate, style in FATES.items():
        beside = 0.3 if fate == "correction" else 0  # it took the place of the rejected token
        xs = [number + beside for number, _, what in points if what == fate]
        ys = [place for _, place, what in points if what == fate]
        top.scatter(xs, ys, label=fate, **({"s": 40} | style))
    top.set_ylabel("place in the round")
    top.set_yticks(range(1, run.gamma + 2))
    top.set_title(f"{run.new_tokens} tokens in {len(run.rounds)} rounds, gamma = {run.gamma}")
    top.legend(loc="upper left", bbox_to_anchor=(1, 1))
    bottom.bar([number for number, _ in shown], [1000 * round.seconds for _, round in shown], color="tab:gray")
    bottom.set_ylabel("time (ms)")
    bottom.set_xlabel("round")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def fates(round: Round) -> list[tuple[int, str]]:
    """(place, fate) of each drafted token of a round, places counted from 1, and of the extra token in the place it took."""
    points = [(i + 1, "accepted" if i < round.accepted else "rejected" if i < round.tested else "not tested")
              for i in range(len(round.drafted))]
    if round.extra is not None:
        points.append((round.accepted + 1, round.kind))
    return points
