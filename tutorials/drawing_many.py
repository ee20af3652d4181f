"""Pictures for notebooks 12 and 13: blocks of tokens, trees of them, and several texts at once."""
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from decoding import Round
from decoding.drafters.tree import Tree
from tutorials.drawing import CELLS, arrow, draw_word, word

KEPT: tuple[dict[str, Any], ...] = (
    {"facecolor": "#fbe3cf", "edgecolor": "#b4510c", "hatch": "xx"},
    {"facecolor": "#d5efd5", "edgecolor": "black", "hatch": ".."},
    {"facecolor": "#8fcf8f", "edgecolor": "black"})  # 0, 1, 2 tokens


def draw_verdicts(axes: Axes, verdicts: dict[str, tuple[float, list[float]]]) -> None:
    """Draw how many tokens of each draft of two are kept, as areas.

    verdicts: {draft: (its probability, the chances to keep exactly 0, 1, 2 of it)}.
    """
    x = 0.0
    for draft, (width, chances) in verdicts.items():
        y = 0.0
        for n in (2, 1, 0):
            axes.add_patch(Rectangle((x, y), width, chances[n], **KEPT[n]))
            y += chances[n]
        axes.text(x + width / 2, -0.03, draft, ha="center", va="top", fontsize=12)
        x += width
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="chance, given the draft")
    axes.set_xlabel("the draft; as wide as it is likely", labelpad=22)
    axes.set_xticks([])
    handles = [Patch(label=f"{n} kept", **KEPT[n]) for n in (0, 1, 2)]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))


def draw_branches(axes: Axes, tree: Tree, tokenizer, path: list[int]) -> None:
    """Draw a tree of drafted tokens from left to right; what is not on the path is struck."""
    depth, spots = {-1: 0}, {-1: (0.0, 0.0)}
    used: dict[int, int] = {}
    for i, parent in enumerate(tree.parents):
        depth[i] = depth[parent] + 1
        spots[i] = depth[i], used.get(depth[i], 0)
        used[depth[i]] = used.get(depth[i], 0) + 1
    for i, parent in enumerate(tree.parents):
        axes.plot(*zip(spots[parent], spots[i]), color="0.6", linewidth=1, zorder=1)
    for i, (x, y) in spots.items():
        fate = "settled" if i < 0 else "kept" if i in path else "to be forgotten"
        axes.add_patch(Rectangle((x - 0.34, y - 0.3), 0.68, 0.6, zorder=2, **CELLS[fate]))
        label = "text" if i < 0 else f"{i}: {word(int(tree.ids[i]), tokenizer)}"
        draw_word(axes, x, y, label, struck=fate == "to be forgotten")
    axes.set(xlim=(-0.5, max(depth.values()) + 0.5), ylim=(max(used.values()) - 0.5, -0.5))
    axes.axis("off")


def draw_kept(axes: Axes, path: list[int], n: int) -> None:
    """Draw the rows of the cache that a tree of n tokens fills, and where the path's rows go."""
    for i in range(n):
        fate = "kept" if i in path else "to be forgotten"
        axes.add_patch(Rectangle((i - 0.45, -0.4), 0.9, 0.8, **CELLS[fate]))
        draw_word(axes, i, 0, str(i), struck=fate == "to be forgotten")
        fate = "kept" if i < len(path) else "nothing"
        axes.add_patch(Rectangle((i - 0.45, 1.2), 0.9, 0.8, **CELLS[fate]))
    for to, node in enumerate(path):
        arrow(axes, (node, 0.4), (to, 1.2))
        draw_word(axes, to, 1.6, str(node), struck=False)
    axes.set(xlim=(-0.6, n - 0.4), ylim=(2.2, -0.6), xlabel="row of the cache after the text")
    axes.set_xticks(range(n))
    axes.set_yticks([0, 1.6], ["the tree, verified", "after keep"])


def draw_lengths(axes: Axes, lengths: list[int], new: list[int]) -> None:
    """Draw the cache of several texts during a pass: what each holds, its new tokens, fillers."""
    T = max(new)
    for b, (length, n) in enumerate(zip(lengths, new)):
        for j in range(max(lengths) + T):
            fate = ("settled" if j < length else "the target's own" if j < length + n
                    else "to be forgotten" if j < length + T else "nothing")
            axes.add_patch(Rectangle((j - 0.45, b - 0.4), 0.9, 0.8, **CELLS[fate]))
    names = {"settled": "held: lengths[b]", "the target's own": "new", "to be forgotten": "filler",
             "nothing": "free"}
    axes.set(xlim=(-0.6, max(lengths) + T - 0.4), ylim=(len(lengths) - 0.5, -0.5),
             xlabel="position = column")
    axes.set_yticks(range(len(lengths)), [f"text {b}" for b in range(len(lengths))])
    axes.legend(handles=[Patch(label=name, **CELLS[fate]) for fate, name in names.items()],
                loc="upper left", bbox_to_anchor=(1, 1))


def draw_passes(axes: Axes, passes: list[dict[int, Round]], n: int) -> None:
    """Draw which of n texts takes part in which pass, and how many tokens it gets there."""
    for x, found in enumerate(passes):
        for b in range(n):
            fate = "kept" if b in found else "nothing"
            axes.add_patch(Rectangle((x - 0.45, b - 0.4), 0.9, 0.8, **CELLS[fate]))
            if b in found:
                draw_word(axes, x, b, str(len(found[b].emitted)), struck=False)
    axes.set(xlim=(-0.6, len(passes) - 0.4), ylim=(n - 0.5, -0.5), xlabel="pass of the target")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks(range(n), [f"text {b}" for b in range(n)])
