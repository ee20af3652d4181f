"""One page to print, A4, and its blank twin: python -m tutorials.teach.handout [--blank] page.pdf

The page has the rule, its proof, the picture, both papers' letters, the formula and the algorithm.
The blank one has the same frame with lines to write on: an exit ticket.
"""
import argparse
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weights.console import OneLineParser, run_program

PROGRAM = "python -m tutorials.teach.handout"
MINIMAL = Path(__file__).parents[2] / "decoding" / "minimal.py"
FACES, P, Q = "ABCD", (0.4, 0.3, 0.2, 0.1), (0.2, 0.5, 0.1, 0.2)  # the dice of notebook 3
LEFT, RIGHT = 0.07, 0.93  # the margins of the page
ANSWER = 0.285  # where the answers begin
LINE = 0.0165  # the height of a line of text

RULE = (
    ("1.  Draw $x$ from", r"$q$, the draft's distribution."),
    ("2.  Keep $x$ if", r"$u < p(x)\,/\,q(x)$, with $u$ uniform in [0, 1); $p$ is the target's."),
    ("3.  If not, draw from", r"the residual: $\max(0,\ p - q)$, divided by its sum."),
)
PROOF = (
    ("1.  drafted and kept", r"$q(x)\,\min(1,\ p(x)/q(x)) \ =\ \min(p(x),\ q(x))$"),
    ("2.  thrown away, any $x$",
     r"$1 - \alpha \ =\ 1 - \sum\,\min(p,\ q) \ =\ \sum\,\max(0,\ p - q)$"),
    ("3.  thrown away, then $x$",
     r"$(1-\alpha)\cdot \max(0,\ p(x) - q(x))\,/\,(1-\alpha) \ =\ \max(0,\ p(x) - q(x))$"),
    ("4.  lines 1 and 3 together", r"$\min(p(x),\ q(x)) + \max(0,\ p(x) - q(x)) \ =\ p(x)$"),
)
LETTERS = (
    ("", "here and in\nLeviathan et al.", "in\nChen et al."),
    ("the target's distribution", "$p$", "$q$"),
    ("the draft's distribution", "$q$", "$p$"),
    ("tokens drafted per round", r"$\gamma$", "$K$"),
    ("keep $x$ with probability", r"$\min(1,\ p/q)$", r"$\min(1,\ q/p)$"),
    ("after a rejection draw", r"$\max(0,\ p-q)$", r"$\max(0,\ q-p)$"),
    ("kept, at one position", r"$\beta = \sum\,\min(p,\ q)$", "acceptance rate"),
    ("kept, on average", r"$\alpha$ (one die: $\beta$)", "no letter"),
    ("cost of a draft step", "$c$", "–"),
)
FORMULA = (
    ("tokens per round", r"$1 + \alpha + \cdots + \alpha^\gamma"
     r" \ =\ (1 - \alpha^{\gamma+1})\,/\,(1-\alpha)$"),
    ("cost of a round", r"$\gamma c + v$ steps of the target; $v$: verifying $\gamma + 1$ tokens, "
     "1 in the paper"),
    ("speed-up", r"tokens per round / cost of a round.  With $\gamma = v = 1$ it gains if "
     r"$\alpha > c$."),
)
STEPS = tuple((f"{number}.  {step}", "") for number, step in enumerate(
    ("draft", "verify", "accept", "correct, or bonus", "rewind"), start=1))


def main(argv: list[str] | None = None) -> int:
    """Write the page that the command line asks for. Return the exit code."""
    return run_program(PROGRAM, lambda: run(argv))


def run(argv: list[str] | None) -> None:
    parser = OneLineParser(prog=PROGRAM, description="Write a page to print.")
    parser.add_argument("out", type=a_picture, help="the file to write, as page.pdf")
    parser.add_argument("--blank", action="store_true", help="the same with lines to write on")
    options = parser.parse_args(argv)
    draw_page(options.blank).savefig(options.out)
    print(f"one page of A4 in {options.out}")


def a_picture(name: str) -> Path:
    """Return a path whose format matplotlib can write, as an argparse type."""
    formats = Figure().canvas.get_supported_filetypes()
    if Path(name).suffix[1:] not in formats:
        raise argparse.ArgumentTypeError(f"{name!r} should end in .pdf, or in .png")
    return Path(name)


def draw_page(blank: bool) -> Figure:
    """Return the page. blank: with lines instead of the answers."""
    figure = Figure(figsize=(8.27, 11.69), dpi=150)
    page = figure.add_axes((0, 0, 1, 1))
    page.set_axis_off()
    page.set(xlim=(0, 1), ylim=(0, 1))
    page.text(LEFT, 0.965, "Speculative sampling on one page", size=16, weight="bold", va="top")
    if blank:
        page.text(RIGHT, 0.965, "name: ______________________", size=10, va="top", ha="right")
    y = rows(page, 0.925, "The rule", RULE, blank)
    y = rows(page, y, "The proof: what comes out is p", PROOF, blank)
    draw_dice(figure.add_axes((LEFT + 0.04, y - 0.225, 0.36, 0.2)), page, y, blank)
    letters(page, y, blank)
    y = rows(page, y - 0.27, "What it gains", FORMULA, blank)
    algorithm(page, y, blank)
    return figure


def heading(page: Axes, x: float, y: float, text: str) -> None:
    page.text(x, y, text, size=11.5, weight="bold", va="top")


def rows(page: Axes, y: float, title: str, lines: tuple, blank: bool) -> float:
    """Write what there is to say on the left, and the answers. Return where the next part begins.

    y: the top, as a share of the page.
    """
    heading(page, LEFT, y, title)
    height = 1.6 * LINE if blank else 1.3 * LINE
    for number, (label, answer) in enumerate(lines):
        at = y - 0.032 - number * height
        page.text(LEFT, at, label, size=9.5, va="baseline")
        write(page, ANSWER, RIGHT, at, answer, blank)
    return y - 0.032 - len(lines) * height - 0.008


def write(page: Axes, x: float, end: float, y: float, answer: str, blank: bool) -> None:
    """Write an answer on its line, or the line alone."""
    if blank:
        page.plot([x, end], [y - 0.002] * 2, color="0.5", linewidth=0.6)
    else:
        page.text(x, y, answer, size=9.5, va="baseline")


def draw_dice(axes: Axes, page: Axes, y: float, blank: bool) -> None:
    """Draw p and q of the four faces, and what lies between them, or leave that to the reader."""
    heading(page, LEFT, y, "Hatch what is kept and missing" if blank
            else "The picture: a die with four faces")
    both = [min(pair) for pair in zip(P, Q)]
    over = [max(0, p - q) for p, q in zip(P, Q)], [max(0, q - p) for p, q in zip(P, Q)]
    if not blank:
        axes.bar(range(4), both, 0.7, color="0.75", label="min(p, q): kept")
        axes.bar(range(4), over[0], 0.7, both, color="#cfe3f5", edgecolor="tab:blue", hatch="///",
                 label="p > q: residual")
        axes.bar(range(4), over[1], 0.7, both, color="#fbe3cf", edgecolor="tab:orange",
                 hatch="...", label="q > p: thrown away")
    axes.plot(P, "o", color="tab:blue", label="p, the target", clip_on=False)
    axes.plot(Q, "X", color="tab:orange", label="q, the draft", clip_on=False)
    axes.set_xticks(range(4), FACES)
    axes.set(ylim=(0, 0.72), xlim=(-0.6, 3.6))
    axes.set_ylabel("probability", size=8)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=7.5, ncols=2, loc="upper right", frameon=False, borderaxespad=0)


def letters(page: Axes, y: float, blank: bool) -> None:
    """Write the table of both papers' letters, to the right of the picture."""
    x, columns = 0.5, (0.69, 0.84)
    heading(page, x, y, "Two sets of letters")
    for number, (what, ours, theirs) in enumerate(LETTERS):
        at = y - 0.052 - number * 0.0245
        page.text(x, at, what, size=8.5)
        head = number == 0
        for column, text, end in zip(columns, (ours, theirs), (0.825, RIGHT)):
            if head or not blank:
                page.text(column, at, text, size=8.5, weight="bold" if head else "normal")
            else:
                write(page, column, end, at, text, blank)


def algorithm(page: Axes, y: float, blank: bool) -> None:
    """Write the loop of decoding/minimal.py, or the names of its steps and room for them."""
    if blank:
        rows(page, y, "The algorithm, in words or in code", STEPS, blank)
        return
    heading(page, LEFT, y, "The algorithm, from decoding/minimal.py")
    for number, line in enumerate(loop()):
        page.text(LEFT, y - 0.034 - number * LINE, line, size=7.6, family="monospace")


def loop() -> list[str]:
    """Return the lines of the loop, without what indents all of them."""
    lines = MINIMAL.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    while "))
    last = next(i for i, line in enumerate(lines) if line.startswith("    return tokens"))
    return [line[4:] for line in lines[first:last]]


if __name__ == "__main__":
    raise SystemExit(main())
