"""Draws a run as a moving picture (SVG): draft, one pass of the target, and the text that grows.

    python -m decoding.animation --out tutorials/run.svg

The file has no script and loads nothing, so it moves inside an <img>, too.
"""
import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path

import torch

from decoding.picture import fates
from decoding.result import Generation, Round
from decoding.sampling import Sampling
from decoding.speculative import speculative_rounds, usual_rule
from decoding.svg import (
    BOX,
    EDGE,
    FADE,
    GAP,
    MOVE,
    WIDTH,
    Box,
    Timeline,
    document,
    fly,
    label,
    say,
    texts,
    words,
    wrap,
)
from weights import load_model, load_tokenizer

# The seed was chosen by hand, for a story with a bit of everything, and 3.2 tokens per pass.
PROMPT, SEED, ROUNDS = "Once upon a time", 234, 6
LEFT = 118  # where the boxes begin, to the right of their labels
# Seconds from the beginning of a round; the end of the last one stays for HOLD.
DRAFT, CHECK, DECIDED, OWN, LEAVE, ROUND, HOLD = 0.15, 0.95, 1.55, 1.75, 2.4, 3.0, 6.0
LINGER = 0.4  # seconds that the outcome of a round is still seen in the next


def animate(run: Generation, prompt: str, tokenizer, rounds: int = ROUNDS) -> str:
    """Return an SVG document of the first `rounds` rounds of `run`, which continued `prompt`.

    It says that the draft is a small model, and that the text has the target's distribution.
    """
    shown = run.rounds[:rounds]
    times = Timeline(ROUND * len(shown) + HOLD)
    parts = texts(prompt, shown, tokenizer)
    starts = list(accumulate(map(len, parts)))  # of the tokens' parts, which follow the prompt
    places = wrap("".join(parts) + " ")
    top = places[-1][1] + 60  # of what is below the text
    rows = [lay_out(round, tokenizer, top + 26) for round in shown]
    bottom = max((box.y for boxes in rows for box in boxes), default=top) + 2 * BOX + GAP + 24
    body = [heading(top + 26), words(parts[0], places, "prompt")]
    done = 0
    for number, (round, boxes) in enumerate(zip(shown, rows)):
        begin = ROUND * number
        end = begin + ROUND if number + 1 < len(shown) else times.seconds
        body += [f'<g id="round-{number + 1}">\n', *draw_round(boxes, times, begin, end),
                 *captions(round, times, begin, begin + ROUND + LINGER, top)]
        for box in boxes:
            if box.fate not in ("rejected", "not tested"):
                part = parts[done + 1]
                body.append(fly(part, box, places[starts[done]:], times, begin + LEAVE))
                done += 1
        body.append("</g>\n")
    told = f"{len(shown)} passes instead of {done}, and exactly the target's own distribution"
    body.append(f'<g class="{times.show(times.seconds - HOLD + LINGER, times.seconds)}">'
                f"{say(EDGE, top, told, 'strong')}</g>\n")
    body += counter(shown, times, bottom)
    return document("Speculative decoding, round after round",
                    f"{told}. The text: {''.join(parts)}", bottom + 106, times, "".join(body))


def heading(y: int) -> str:
    """Return what never changes: the title, and whose row is which."""
    return (say(EDGE, 44, "Speculative decoding: a small model drafts, a large one checks", "title")
            + f'<g class="drafted">{say(EDGE, y + BOX // 2 + 6, "draft", "strong")}</g>'
            f'<g class="bonus">{say(EDGE, y + BOX + GAP + BOX // 2 + 6, "target")}</g>\n')


def draw_round(boxes: list[Box], times: Timeline, begin: float, end: float) -> Iterator[str]:
    """Yield the boxes of a round, before and after the rule decides, and the pass between."""
    x, y = LEFT - 8, boxes[0].y - 8
    width = max(box.x + box.width for box in boxes) + 8 - x
    height = max(box.y for box in boxes) + 2 * BOX + GAP + 8 - y
    size = f'x="{x}" width="{width}" style="fill:#1f5fb0"'
    yield (f'<g class="{times.show(begin + CHECK - FADE, begin + OWN)}"><rect {size} y="{y}" '
           f'height="{height}" rx="9" fill-opacity=".18"/></g>\n')
    drafted = [box for box in boxes if not box.own]
    for i, box in enumerate(drafted):
        start = begin + DRAFT + (CHECK - DRAFT) * i / len(drafted)
        yield box.svg("drafted", times.show(start, begin + DECIDED + FADE))
    yield (f'<g class="{times.show(begin + CHECK, begin + OWN, (0, 6 - height))}"><rect {size} '
           f'y="{y + height - 6}" height="6" rx="3"/></g>\n')
    for box in boxes:
        yield box.svg(box.fate, times.show(begin + (OWN if box.own else DECIDED), end))


def captions(round: Round, times: Timeline, begin: float, end: float, y: int) -> Iterator[str]:
    """Yield what is said of a round: what was drafted, that it is checked, and what came of it."""
    k, n = len(round.drafted), round.accepted
    outcome = {"correction": f"{n} accepted ✓, the next one rejected ✗ and replaced by the target ▲"
               if n else "The first one is rejected ✗ and replaced by the target ▲",
               "bonus": f"All {k} accepted ✓, and one more token from the target ★" if k
               else "One token from the target ★",
               "none": f"{n} accepted ✓, and the text has ended"}[round.kind]
    draft, check, decided = begin + LINGER * (begin > 0), begin + CHECK - FADE, begin + DECIDED
    for start, stop, look, text in (
            (draft, check, "drafted", "The draft, a small model, proposes "
             + ("1 token" if k == 1 else f"{k} tokens")),
            (check, decided, "bonus", "One pass of the target, a large model, checks them all"),
            (decided, end, "outcome", outcome)):
        yield (f'<g class="{times.show(start, stop)}"><g class="{look}">'
               f'{say(EDGE, y, text, "strong")}</g></g>\n')


def counter(rounds: list[Round], times: Timeline, y: int) -> Iterator[str]:
    """Yield the passes so far, in numbers and as squares, and those of the plain loop."""
    counts = list(accumulate((len(round.emitted) for round in rounds), initial=0))
    step = min(24, (WIDTH - EDGE - LEFT) // max(counts[-1], 1))

    def squares(some: range, y: int, color: str) -> str:
        return "".join(f'<rect x="{LEFT + step * i}" y="{y}" width="{step - 5}" height="15" rx="3" '
                       f'style="{color}"/>' for i in some)

    yield (f'<path d="M{EDGE} {y}H{WIDTH - EDGE}" style="stroke:#ddd"/>'
           + say(EDGE, y + 62, "this run", "small") + say(EDGE, y + 85, "plain loop", "small"))
    for passes, tokens in enumerate(counts):
        start = ROUND * (passes - 1) + LEAVE + MOVE if passes else 0
        end = ROUND * passes + LEAVE + MOVE if passes < len(rounds) else times.seconds
        if passes:
            yield (f'<g class="{times.show(start, times.seconds)}">'
                   + squares(range(passes - 1, passes), y + 50, "fill:#1f5fb0")
                   + squares(range(counts[passes - 1], tokens), y + 73, "stroke:#666") + "</g>\n")
        yield (f'<g class="{times.show(start, end + FADE * (end < times.seconds))}">'
               + say(EDGE, y + 30, f"target passes: {passes}", "strong")
               + say(220, y + 30, f"tokens: {tokens}", "strong")
               + say(350, y + 30, f"the plain loop would have needed {tokens} passes") + "</g>\n")


def lay_out(round: Round, tokenizer, top: int) -> list[Box]:
    """Return the boxes of a round: the drafted tokens in order, then the target's own, if any."""
    tokens = round.drafted + ([] if round.extra is None else [round.extra])
    boxes = [Box(label(token, tokenizer), fate, position, 0)
             for token, (position, fate) in zip(tokens, fates(round))]
    x, y, placed = LEFT, top, {}
    for position in sorted({box.x for box in boxes}):
        width = max(box.width for box in boxes if box.x == position)
        if x > LEFT and x + width > WIDTH - EDGE:  # there is no room left in this row
            x, y = LEFT, y + 2 * (BOX + GAP) + GAP
        placed[position] = x, y
        x += width + GAP
    return [replace(box, x=placed[box.x][0], y=placed[box.x][1]) for box in boxes]


def recorded() -> Generation:
    """Return the run that README shows: the bundled pair, a few rounds."""
    target, draft = load_model("tales-large"), load_model("tales-small")
    sampling = Sampling(temperature=0.8)
    rounds = speculative_rounds(target, draft, load_tokenizer("tales-large").encode(PROMPT), 100,
                                gamma=4, rule=usual_rule(sampling), sampling=sampling,
                                generator=torch.Generator().manual_seed(SEED))
    return Generation(list(islice(rounds, ROUNDS)), 4)


def main(arguments: list[str] | None = None) -> None:
    """Write the picture that README shows."""
    parser = argparse.ArgumentParser(prog="python -m decoding.animation", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("tutorials/run.svg"),
                        help="the file (default: %(default)s)")
    options = parser.parse_args(arguments)
    picture = animate(recorded(), PROMPT, load_tokenizer("tales-large"))
    try:
        options.out.write_text(picture, encoding="utf-8", newline="\n")
    except OSError as error:
        parser.error(f"cannot write {options.out}: {error.strerror}")


if __name__ == "__main__":
    main()
