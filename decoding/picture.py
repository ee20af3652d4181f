"""One picture of a whole run: what became of each drafted token, and how long each round took.

Rounds go from left to right, the tokens of a round upwards; candidates for one position stand side
by side.
"""
from collections import Counter

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from decoding.result import Generation, Round
from decoding.tree import TreeRound, depths

# Orange is the draft's, blue the target's, green what both agreed on. Readable in black and white:
# each fate has its own marker, and only what was emitted is filled.
FATES: dict[str, dict] = {
    "accepted": {"marker": "s", "color": "tab:green"},
    "rejected": {"marker": "x", "color": "tab:orange"},
    "not tested": {"marker": "s", "color": "tab:orange", "facecolor": "none"},
    "correction": {"marker": "^", "color": "tab:blue"},
    "bonus": {"marker": "*", "color": "tab:blue", "s": 90},
}

WIDE = 0.7  # how wide the candidates for one position stand, in rounds; a bar is 0.8


def draw_run(run: Generation, rounds: slice = slice(None)) -> Figure:
    """Draw the drafted tokens of `rounds`, the token that ended each, and its milliseconds."""
    shown = list(enumerate(run.rounds, start=1))[rounds]
    height = max(4.5, 1.8 + 0.3 * (run.gamma + 1))  # so that markers never touch
    figure = Figure(figsize=(10, height), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    points = [(number + aside, *point) for number, round in shown
              for aside, point in zip(lanes(round), fates(round))]
    for fate, style in FATES.items():
        above = 0.4 if fate == "correction" else 0  # the rejected token has the same position
        xs = [x for x, _, what in points if what == fate]
        ys = [position + above for _, position, what in points if what == fate]
        top.scatter(xs, ys, label=fate, **({"s": 40} | style))
    top.set_ylabel("position in the round")
    top.set_yticks(range(1, run.gamma + 2))
    trees = any(isinstance(round, TreeRound) for round in run.rounds)
    top.set_title(f"{run.new_tokens} tokens in {len(run.rounds)} rounds, "
                  f"{'trees of depth' if trees else 'gamma ='} {run.gamma}")
    top.legend(loc="upper left", bbox_to_anchor=(1, 1))
    bottom.bar([number for number, _ in shown], [1000 * round.seconds for _, round in shown],
               color="tab:gray")
    bottom.set_ylabel("time (ms)")
    bottom.set_xlabel("round")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def fates(round: Round) -> list[tuple[int, str]]:
    """Return (position from 1, fate) of each drafted token, and last of the extra token.

    In a tree several drafted tokens can have the same position.
    """
    places = (depths(round.parents) if isinstance(round, TreeRound) else
              range(1, len(round.drafted) + 1))
    points = list(zip(places, round.verdicts))
    if round.extra is not None:
        points.append((round.accepted + 1, round.kind))
    return points


def lanes(round: Round) -> list[float]:
    """Return how far to the right of its round's middle each token of `fates` is drawn.

    A bonus stands beside drafted tokens of its position, which are on another branch; a correction
    above the last one that was rejected for it.
    """
    points = fates(round)
    positions = [position for position, fate in points if fate != "correction"]
    widest = max(Counter(positions).values(), default=1)
    found = [WIDE * ((positions[:i].count(position) + 0.5) / widest - 0.5)
             for i, position in enumerate(positions)]
    if round.kind == "correction":
        rejected = (round.accepted + 1, "rejected")
        found.append([x for x, point in zip(found, points) if point == rejected][-1])
    return found
