"""Pictures for the notebooks: what the caches hold, what the forward pass does, who sees whom."""
import math
from typing import Any

import torch
from IPython.display import display
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from decoding import Round
from model import GPT2, GPT2Config

# Green is what draft and target agree on, orange the draft's, blue the target's. Readable in black
# and white: each has its own hatch or line.
CELLS: dict[str, dict[str, Any]] = {
    "settled": {"facecolor": "0.92", "edgecolor": "black"},
    "kept": {"facecolor": "#d5efd5", "edgecolor": "black", "linewidth": 1.8},
    "to be forgotten": {"facecolor": "#f9dcc4", "edgecolor": "#b4510c", "hatch": "xx"},
    "the target's own": {"facecolor": "#d6e4f7", "edgecolor": "#1f5fb0", "hatch": "//"},
    "nothing": {"facecolor": "none", "edgecolor": "0.6", "linestyle": ":"},
}
# The steps of a round in a tree: nothing yet, drafted, thrown away, from the third die.
NODES: tuple[dict[str, Any], ...] = (
    CELLS["settled"],
    {"facecolor": "#fbe3cf", "edgecolor": "tab:orange", "linewidth": 1.5},
    {"facecolor": "white", "edgecolor": "tab:orange", "linestyle": "--"},
    {"facecolor": "#d6e4f7", "edgecolor": "#1f5fb0", "linewidth": 1.5},
)


def show(figure: Figure, alt: str) -> None:
    """Show a figure. alt: the same in words, for a screen reader and where pictures are off."""
    display(figure, metadata={"image/png": {"alt": alt}})
    plt.close(figure)


def draw_caches(axes: Axes, text: list[int], round: Round, tokenizer, shown: int = 3) -> None:
    """Draw both caches, before and after the rewind of a round, and the text after it.

    A column is a position in the text.

    text: the ids before the round; the last `shown` of them are drawn, and all that came after.
    """
    read, now = text + round.drafted, text + round.emitted
    draft_cache = round.draft_cache or (0, 0)
    rows = [("target has read", read, round.target_cache[0]),
            ("target, rewound", now, round.target_cache[1]),
            ("draft has read", read, draft_cache[0]),
            ("draft, rewound", now, draft_cache[1]),
            ("the text now", now, len(now))]
    first, end = max(0, len(text) - shown), max(len(read), len(now))
    for y, (_, tokens, length) in enumerate(rows):
        for x in range(first, end):
            fate = fate_of(x - len(text), round, tokens is now) if x < length else "nothing"
            axes.add_patch(Rectangle((x - 0.45, y - 0.4), 0.9, 0.8, **CELLS[fate]))
            if x < length:
                draw_word(axes, x, y, word(tokens[x], tokenizer), struck=fate == "to be forgotten")
    axes.set(xlim=(first - 0.6, end - 0.4), ylim=(len(rows) - 0.4, -0.6),
             xlabel="position in the text (tokens)")
    axes.set_xticks(range(first, end))
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    legend = [Patch(label=fate, **style) for fate, style in CELLS.items()]
    axes.legend(handles=legend, loc="upper left", bbox_to_anchor=(1, 1))


def draw_word(axes: Axes, x: float, y: float, text: str, struck: bool) -> None:
    """Draw a token's text, struck through if it is to be forgotten."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)
    if struck:
        axes.plot([x - 0.35, x + 0.35], [y, y], color="black", linewidth=1, zorder=4)


def fate_of(i: int, round: Round, rewound: bool) -> str:
    """Return what becomes of the i-th token of a round; with i < 0, of the text before it."""
    if i < 0:
        return "settled"
    if i < round.accepted:
        return "kept"
    return "the target's own" if rewound else "to be forgotten"


def word(token: int, tokenizer) -> str:
    """Return a token as a label: without spaces, with line breaks shown, with dollars escaped."""
    text = tokenizer.decode([token]).replace("<|endoftext|>", "(end)").strip(" ") or "(space)"
    return text.replace("\n", "\\n").replace("$", r"\$")


def draw_forward(axes: Axes, config: GPT2Config, T: int) -> None:
    """Draw the forward pass over T tokens: a box for each step, its shape, and what it does.

    The stream runs along the top; a block's boxes hang below it, read it, and add to it.
    """
    stream = f"({T}, {config.n_embd})"
    top, below = 0.8, 0.38
    boxes = [(0, top, "ids", f"({T},)", "whole numbers"),
             (1, top, "wte + wpe", stream, "one row per token,\none per position"),
             (2.1, below, "attention", stream, "each position looks at\nthe ones before it"),
             (3.3, below, "MLP", stream, "each position\nby itself"),
             (4.6, top, "ln_f", stream, "every row to\nthe same scale"),
             (5.6, top, "wte again", f"({T}, {config.n_vocab})",
              "how well does each\ntoken fit as the next?")]
    for x, y, name, shape, does in boxes:
        color = "#d6e4f7" if y == below else "0.92"
        axes.add_patch(Rectangle((x - 0.36, y - 0.13), 0.72, 0.26, facecolor=color,
                                 edgecolor="black"))
        axes.text(x, y + 0.05, name, ha="center", va="center", fontsize=13)
        axes.text(x, y - 0.06, shape, ha="center", va="center", fontsize=10, family="monospace")
        axes.text(x, y - 0.16, does, ha="center", va="top", fontsize=10)
        if y == below:  # reads the stream at its left, and adds to it at its right
            arrow(axes, (x - 0.28, top), (x - 0.28, y + 0.13))
            arrow(axes, (x + 0.28, y + 0.13), (x + 0.28, top - 0.035))
            axes.plot(x + 0.28, top, "o", color="white", markeredgecolor="black", markersize=15)
            axes.text(x + 0.28, top, "+", ha="center", va="center", fontsize=13)
    for start, end in ((0.36, 0.64), (1.36, 4.24), (4.96, 5.24)):
        arrow(axes, (start, top), (end, top))
    axes.add_patch(Rectangle((1.62, 0.04), 2.17, 0.87, fill=False, edgecolor="#1f5fb0",
                             linestyle="--", linewidth=1.5))
    axes.text(2.7, 0.94, f"{config.n_layer} blocks like this, along the residual stream",
              ha="center", fontsize=11)
    axes.set(xlim=(-0.5, 6.2), ylim=(0, 1.02))
    axes.axis("off")


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow, below what is drawn later or stands out."""
    axes.annotate("", end, start, zorder=1,
                  arrowprops={"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0})


def draw_tree(axes: Axes, paths: dict[tuple[str, ...], list[float]]) -> None:
    """Draw the ways that one round can go as a tree, from left to right, a way on each line.

    paths: {the drafted token, "kept" or "thrown away", and then the token from the third die: the
    probability of each of these steps}.
    """
    lines: dict[tuple[str, ...], list[int]] = {}  # a node is the beginning of a way
    for line, path in enumerate(paths):
        for depth in range(len(path) + 1):
            lines.setdefault(path[:depth], []).append(line)
    spots = {node: (len(node), sum(ys) / len(ys)) for node, ys in lines.items()}
    for path, chances in paths.items():
        for depth, chance in enumerate(chances):
            (x0, y0), (x1, y1) = spots[path[:depth]], spots[path[:depth + 1]]
            axes.plot([x0, x1], [y0, y1], color="0.6", linewidth=1, zorder=1)
            axes.text(x0 + 0.55, y0 + 0.55 * (y1 - y0), f"{chance:.2f}", fontsize=9, ha="center",
                      va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
        result = path[0] if path[1] == "kept" else path[-1]
        probability = " × ".join(f"{chance:.2f}" for chance in chances)
        axes.text(3.3, spots[path][1], f"{result}   {probability} = {math.prod(chances):.3f}",
                  va="center", fontsize=10, family="monospace")
    for node, (x, y) in spots.items():
        look = NODES[len(node)] if node[1:] != ("kept",) else CELLS["kept"]
        axes.text(x, y, node[-1] if node else "round", ha="center", va="center", fontsize=10,
                  zorder=3, bbox={"boxstyle": "round", "pad": 0.4} | look)
        if node[-1:] == ("thrown away",):
            axes.plot([x - 0.17, x + 0.17], [y, y], color="black", linewidth=1, zorder=4)
    axes.set(xlim=(-0.3, 5), ylim=(len(paths) - 0.4, -1.5))
    for x, step in enumerate(("", "roll q", "is u < p/q ?", "roll the residual", "comes out")):
        axes.text(x + 0.3 * (x == 4), -1.1, step, ha="center", fontsize=11)
    axes.axis("off")


def draw_mask(axes: Axes, mask: Tensor, start: int, positions: list[int] | None = None) -> None:
    """Draw what each new token may look at: `start` cached positions, then the new ones.

    positions: of the new tokens, where they do not stand one after the other.
    """
    for y, row in enumerate(mask.tolist()):
        for x, visible in enumerate(row):
            fate = "nothing" if not visible else "settled" if x < start else "the target's own"
            axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, **CELLS[fate]))
    axes.set(xlim=(-0.6, len(mask[0]) - 0.4), ylim=(len(mask) - 0.4, -0.6), aspect="equal",
             xlabel="position that is looked at", ylabel="new token")
    axes.set_xticks(range(len(mask[0])))
    labels = [str(start + y) for y in range(len(mask))]
    if positions is not None:
        axes.set(xlabel="row of the cache that is looked at")
        labels = [f"{y}, at position {at}" for y, at in enumerate(positions)]
    axes.set_yticks(range(len(mask)), labels)


@torch.no_grad()
def looks_at(model: GPT2, tokens: list[int], start: int) -> Tensor:
    """Return what each token after `start` cached ones looks at, by experiment. (T, start + T)

    Every token in turn is replaced by another one. The positions whose logits change have seen it.
    """
    def logits(tokens):
        cache = model.new_cache(len(tokens))
        if start > 0:
            model.forward(torch.tensor([tokens[:start]]), cache, last=0)
        return model.forward(torch.tensor([tokens[start:]]), cache)[0]  # (T, n_vocab)

    before, columns = logits(tokens), []
    for j, token in enumerate(tokens):
        other = (token + 1) % model.config.n_vocab
        columns.append((logits([*tokens[:j], other, *tokens[j + 1:]]) != before).any(-1))
    return torch.stack(columns, -1)
