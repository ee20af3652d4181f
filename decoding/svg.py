"""What `decoding.moving_picture` draws with: a timeline, boxes, and text of known width."""
import codecs
import re
from dataclasses import dataclass
from html import escape
from itertools import groupby

from decoding.result import Round
from decoding.stop import bytes_of
from weights.terminal import width as cells  # two for a wide character, none for an accent

# Lengths are in the picture's own units: it is WIDTH wide.
WIDTH, EDGE = 800, 28
CELL, LINE, FIRST_LINE = 12, 42, 92  # width of a character, height of a line, baseline of the first
BOX, GAP = 38, 10  # height of a token's box, distance of two
LONGEST = 24  # characters of a token that its box shows
FADE, MOVE = 0.15, 0.45  # seconds in which something appears, and moves
QUIET = {" ": "·", "\n": "↵"}  # shown, but faintly
MARKS = {"drafted": "?", "accepted": "✓", "rejected": "✗", "not tested": "–",
         "correction": "▲", "bonus": "★"}
STYLE = """
text{font:17px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#333}
.token{font:20px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
.title{font-size:19px;font-weight:bold}.small{font-size:14px}.strong{font-weight:bold}
.quiet{fill-opacity:.4}
rect,path{fill:none;stroke-width:2}
.drafted rect,.rejected rect,.not.tested rect{stroke:#d9730d;fill:#fff3e4;stroke-dasharray:6 4}
.drafted text,.rejected text,.not.tested text{fill:#a34a05}
.rejected{opacity:.8}.not.tested{opacity:.6}.rejected path,.not.tested path{stroke:#4a2000}
.accepted rect{stroke:#2a7a2a;fill:#e3f3e3}.accepted text{fill:#1f6a1f}
.accepted path{stroke:#2a7a2a}
.correction rect,.bonus rect{stroke:#1f5fb0;fill:#e4eefb;stroke-width:3}
.correction text,.bonus text{fill:#174f98;font-weight:bold}
"""


class Timeline:
    """Collects when things are seen, as CSS animations that all last `seconds` and begin anew."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.names: dict[str, str] = {}  # keyframes -> CSS class

    def show(self, start: float, end: float, shift: tuple[float, float] = (0, 0)) -> str:
        """Return the CSS classes of what is seen from `start` to `end` and moves in from `shift`.

        What is seen at the end of all is also seen where nothing may move.
        """
        away, here, arrived = "", "", start + FADE
        if shift != (0, 0):
            away = f";transform:translate({shift[0]:g}px,{shift[1]:g}px)"
            here, arrived = ";transform:none", arrived + MOVE
        times = (start, start + FADE, arrived, end - FADE, end)
        a, b, c, d, e = (f"{100 * time / self.seconds:.2f}%" for time in times)
        frames = (f"0%,{a}{{opacity:0{away}}}{b}{{opacity:1{away}}}"
                  f"{c},{d}{{opacity:1{here}}}{e},100%{{opacity:0{here}}}")
        name = self.names.setdefault(frames, f"k{len(self.names)}")
        return f"a {name} still" if end == self.seconds else f"a {name}"

    def css(self) -> str:
        rules = "".join(f"@keyframes {name}{{{frames}}}.{name}{{animation-name:{name}}}\n"
                        for frames, name in self.names.items())
        return (f".a{{opacity:0;animation:{self.seconds:g}s ease-in-out infinite}}\n"
                f".still{{opacity:1}}\n{rules}"
                "@media (prefers-reduced-motion:reduce){.a{animation:none}}\n")


@dataclass(frozen=True)
class Box:
    """A token in its box: the draft's in the upper row, the target's own in the lower."""

    token: str
    fate: str
    x: int
    y: int  # of the upper row

    @property
    def own(self) -> bool:
        return self.fate in ("correction", "bonus")

    @property
    def width(self) -> int:
        return CELL * (cells(self.token) + 2) + 2 * GAP  # 2: the mark at its end

    @property
    def text_at(self) -> tuple[int, int]:
        return self.x + GAP, self.y + BOX // 2 + 7 + (BOX + GAP) * self.own

    def svg(self, fate: str, classes: str) -> str:
        """Return the box as it looks with this fate: with "drafted" before it has its own."""
        x, y = self.text_at
        strike = f'<path d="M{x - 3} {y - 6}h{CELL * cells(self.token) + 6}"/>'
        return (f'<g class="{classes}"><g class="{fate}"><rect x="{self.x}" y="{y - BOX // 2 - 7}" '
                f'width="{self.width}" height="{BOX}" rx="7"/>{token_text(x, y, self.token)}'
                f"{strike if fate in ('rejected', 'not tested') else ''}"
                f"{say(self.x + self.width - CELL - 8, y, MARKS[fate])}</g></g>\n")


def document(title: str, told: str, height: float, times: Timeline, body: str) -> str:
    """Return the whole file. told: what the picture says, for those who cannot see it."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
            f'width="{WIDTH}" height="{height:g}" role="img" aria-labelledby="title desc">\n'
            f'<title id="title">{escape(title)}</title>\n<desc id="desc">{escape(told)}</desc>\n'
            f"<style>{STYLE}{times.css()}</style>\n"
            f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2:g}" rx="12" '
            f'style="fill:#fdfdfa;stroke:#c9c9c2"/>\n{body}</svg>\n')


def say(x: float, y: float, text: str, look: str = "", more: str = "") -> str:
    """Return a line of text. look: a class of STYLE. more: further attributes."""
    return f'<text class="{look}" x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


def token_text(x: float, y: float, text: str) -> str:
    """Return text that is as wide in every font, with its spaces and line breaks shown."""
    shown = re.sub(r"[ \n]", lambda c: f'<tspan class="quiet">{QUIET[c[0]]}</tspan>', escape(text))
    return (f'<text class="token" x="{x:g}" y="{y:g}" textLength="{CELL * cells(text)}" '
            f'lengthAdjust="spacingAndGlyphs">{shown}</text>')


def words(part: str, places: list[tuple[int, int]], look: str) -> str:
    """Return a part of the story at its places, with a line or a mark below it: whose it is."""
    drawn = []
    for _, run in groupby(zip(part, places), key=lambda at: (at[1][1], " \n".find(at[0]))):
        pairs = list(run)
        text, (x, y) = "".join(c for c, _ in pairs), pairs[0][1]
        if not text.isspace() or "\n" in text:
            width = CELL * cells(text)
            drawn.append(token_text(x, y, text))
            if look == "accepted":
                drawn.append(f'<path d="M{x + 1} {y + 6}h{width - 2}"/>')
            elif look in MARKS:
                drawn.append(say(x + width / 2, y + 19, MARKS[look], "small",
                                 ' text-anchor="middle"'))
    return f'<g class="{look}">{"".join(drawn)}</g>'


def fly(part: str, box: Box, places: list[tuple[int, int]], times: Timeline, start: float) -> str:
    """Return the text of a token, which moves from its box into the story."""
    if not part:  # an end of text, or a piece of a character
        return ""
    first = len(part) - len(part.lstrip(" ")) if part.strip(" ") else 0
    (from_x, from_y), (x, y) = box.text_at, places[first]
    classes = times.show(start, times.seconds, (from_x + CELL * first - x, from_y - y))
    return f'<g class="{classes}">{words(part, places, box.fate)}</g>\n'


def wrap(text: str) -> list[tuple[int, int]]:
    """Return where each character stands (x and baseline), in lines that are broken at words."""
    places = []
    columns = (WIDTH - 2 * EDGE) // CELL
    column = row = 0
    for word in re.findall(r"\n| |[^ \n]+", text):
        if not word.isspace() and 0 < column and column + cells(word) > columns:
            column, row = 0, row + 1
        for c in word:
            if not c.isspace() and column + cells(c) > columns:  # a word longer than a line
                column, row = 0, row + 1
            places.append((EDGE + CELL * min(column, columns), FIRST_LINE + LINE * row))
            column += cells(c)
        if word == "\n":
            column, row = 0, row + 1
    return places


def label(token: int, tokenizer) -> str:
    """Return a token as its box shows it, a piece of a character by the numbers of its bytes."""
    data = tokenizer.decode_single_token_bytes(token)
    text = printable(data.decode("utf-8", "backslashreplace"))
    return text if len(text) <= LONGEST else text[:LONGEST - 1] + "…"


def texts(prompt: str, rounds: list[Round], tokenizer) -> list[str]:
    """Return the prompt and what each token adds: a character in pieces comes with the last."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    parts = [prompt]
    for token in (token for round in rounds for token in round.emitted):
        parts.append(decoder.decode(bytes_of([token], tokenizer)))
    parts[-1] += decoder.decode(b"", final=True)
    return [printable(part) for part in parts]


def printable(text: str) -> str:
    """Return `text` with escapes for characters that cannot be seen, or that XML forbids."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
                   for c in text)
