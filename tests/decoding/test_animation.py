"""The moving picture: well-formed, complete, and the run's own text at its end."""
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from decoding.animation import PROMPT, main, recorded
from decoding.moving_picture import animate
from decoding.picture import draw_run, fates
from decoding.result import Generation, Round
from decoding.svg import EDGE, MARKS, WIDTH, wrap
from weights import load_tokenizer

TOKENIZER = load_tokenizer("tales-large")
BYTES = [TOKENIZER.token_byte_values().index(bytes([byte])) for byte in range(256)]
END = TOKENIZER.eot_token
STORED = Path(__file__).parents[2] / "tutorials" / "run.svg"
SVG = "{http://www.w3.org/2000/svg}"


def ids(text):
    return [BYTES[byte] for byte in text.encode()]


def a_round(drafted, accepted, extra, kind):
    return Round(drafted, accepted, extra, kind, (0, 0), None, None, 0.0)


A, B, C, D = ids("a<&\"")
MANY = TOKENIZER.encode(" beautiful enchanted" * 9)[:16]
RUNS = {
    "mixed": [a_round([A, B, C], 1, D, "correction"), a_round([A, B], 2, C, "bonus"),
              a_round([A, B, C], 0, B, "correction")],
    "no rejection": [a_round(TOKENIZER.encode(" the King said"), 3, A, "bonus")] * 3,
    "nothing drafted": [a_round([], 0, A, "bonus"), a_round([], 0, B, "bonus")],
    "ended by the draft's end of text": [a_round([A, END, B], 2, None, "none")],
    "ended by the target's end of text": [a_round([A, B], 1, END, "correction")],
    "characters in pieces": [a_round(ids("é日")[:3], 3, ids("é日")[3], "bonus"),
                             a_round(ids("本😀")[2:4], 0, ids("本")[2], "correction")],
    "a character that never ends": [a_round(ids("日")[:1], 1, ids("日")[1], "bonus")],
    "invisible characters": [a_round(ids("\x00\t\n\n"), 4, ids("\x1b")[0], "bonus"),
                             a_round(ids(" \n"), 1, ids(" ")[0], "correction")],
    "long tokens and many": [a_round(MANY, 16, A, "bonus")],
    "an empty run": [],
}
PROMPTS = {"": "an empty prompt", "Once <upon> & \"a\" 'time'": "signs that XML knows",
           "word " * 30 + "x" * 200: "several lines"}


@pytest.fixture(params=RUNS)
def run(request):
    return Generation(RUNS[request.param], 16)


def classes(element):
    return element.get("class", "").split()


def visible(element, still, seen=True):
    """The <text class="token"> of the story, not of boxes; with `still` only what its end shows."""
    seen = seen and not (still and "a" in classes(element) and "still" not in classes(element))
    if element.tag == f"{SVG}g" and any(child.tag == f"{SVG}rect" for child in element):
        return
    if seen and element.tag == f"{SVG}text" and "token" in classes(element):
        yield element
    for child in element:
        yield from visible(child, still, seen)


def boxes(root, number):
    """(fate, token, its <rect>) of each box of a round, in the order of the file."""
    for box in root.iterfind(f".//{SVG}g[@id='round-{number}']//{SVG}g"):
        texts = box.findall(f"{SVG}text")
        rect = box.find(f"{SVG}rect")
        if rect is not None and len(texts) == 2:
            fate = box.get("class")
            assert texts[1].text == MARKS[fate]  # never colour alone
            assert (fate in ("rejected", "not tested")) == (box.find(f"{SVG}path") is not None)
            token = "".join(texts[0].itertext()).replace("·", " ").replace("↵", "\n")
            yield fate, token, rect


def shown(token):
    text = TOKENIZER.decode_single_token_bytes(token).decode("utf-8", "backslashreplace")
    return re.sub(r"[\x00-\x09\x1b]", lambda c: c[0].encode("unicode_escape").decode(), text)


def story(prompt, run):
    tokens = [token for token in run.tokens if token != END]
    data = b"".join(map(TOKENIZER.decode_single_token_bytes, tokens))
    text = prompt + data.decode("utf-8", "replace")
    return re.sub(r"[\x00-\x09\x1b]", lambda c: c[0].encode("unicode_escape").decode(), text)


def test_each_token_stands_there_with_its_fate(run):
    root = ET.fromstring(animate(run, "Once", TOKENIZER))
    for number, round in enumerate(run.rounds, start=1):
        tokens = [*round.drafted, *([] if round.extra is None else [round.extra])]
        expected = [("drafted", shown(token)) for token in round.drafted]
        expected += [(fate, shown(token))
                     for token, (_, fate) in zip(tokens, fates(round), strict=True)]
        assert [(fate, token) for fate, token, _ in boxes(root, number)] == expected
    assert not list(boxes(root, len(run.rounds) + 1))


@pytest.mark.parametrize("prompt", PROMPTS, ids=PROMPTS.values())
def test_at_its_end_the_text_is_the_runs(run, prompt):
    root = ET.fromstring(animate(run, prompt, TOKENIZER))
    text = story(prompt, run)
    seen = "".join("".join(part.itertext()) for part in visible(root, still=True))
    assert seen.replace("↵", "") == re.sub(r"\s", "", text) and seen.count("↵") == text.count("\n")
    assert root.find(f"{SVG}desc").text.endswith(f"The text: {text}")
    n = run.new_tokens
    assert (f"target passes: {len(run.rounds)}", f"tokens: {n}",
            f"the plain loop would have needed {n} passes") == counts(root)


def counts(root):
    """The counter as it stands at the end."""
    groups = [g for g in root.iter(f"{SVG}g") if {"a", "still"} <= set(classes(g))]
    lines = [[text.text for text in g.findall(f"{SVG}text")] for g in groups]
    return next(tuple(line) for line in lines if len(line) == 3)


@pytest.mark.parametrize("prompt", PROMPTS, ids=PROMPTS.values())
def test_everything_fits_and_nothing_overlaps(run, prompt):
    root = ET.fromstring(animate(run, prompt, TOKENIZER))
    height = float(root.get("height"))
    areas = []
    for text in visible(root, still=False):
        x, y, width = (float(text.get(name)) for name in ("x", "y", "textLength"))
        areas.append((x, y - 18, x + width, y + 20))
    inside(areas, height)
    for number in range(1, len(run.rounds) + 1):
        block = [[float(rect.get(name)) for name in ("x", "y", "width", "height")]
                 for fate, _, rect in boxes(root, number) if fate != "drafted"]
        inside([(x, y, x + width, y + height) for x, y, width, height in block], height)
        lowest = max(y for _, y, _, y in areas) if areas else 0
        assert all(y > lowest for _, y, _, _ in block)


def inside(areas, height):
    for i, (left, top, right, bottom) in enumerate(areas):
        assert left >= EDGE and right <= WIDTH - EDGE + 12 and top >= 0 and bottom <= height
        for other in areas[:i]:
            assert (right <= other[0] or left >= other[2] or bottom <= other[1] or top >= other[3])


def test_lines_are_broken_between_words():
    text = "It was a long way to the castle, " * 5 + "y" * 150
    positions = wrap(text)
    for word in re.finditer(r"\S+", text):
        lines = {y for _, y in positions[word.start():word.end()]}
        assert len(lines) == (3 if "y" * 150 in word[0] else 1)
    assert wrap("a\nb") == [(EDGE, wrap("a")[0][1]), (EDGE + 12, wrap("a")[0][1]),
                            (EDGE, wrap("a\nb")[2][1])]
    assert wrap("a\nb")[2][1] > wrap("a")[0][1]
    assert wrap("日e\u0301x") == [(EDGE + 12 * cell, wrap("a")[0][1]) for cell in (0, 2, 3, 3)]


def test_a_round_comes_after_the_other_and_a_verdict_after_the_draft():
    svg = animate(Generation(RUNS["mixed"], 3), "Once", TOKENIZER)
    begins = {name: float(start) for name, start in
              re.findall(r"@keyframes (k\d+)\{0%,([\d.]+)%", svg)}
    root = ET.fromstring(svg)
    parents = {child: parent for parent in root.iter() for child in parent}
    order = []
    for number in (1, 2, 3):
        found = list(boxes(root, number))
        times = [begins[classes(parents[parents[rect]])[1]] for _, _, rect in found]
        n = sum(fate == "drafted" for fate, _, _ in found)
        assert times[:n] == sorted(set(times[:n]))  # one after the other
        assert len(set(times[n:-1])) == 1 and max(times[:n]) < times[n] < times[-1]
        order += [min(times), max(times)]
    assert order == sorted(order)


def test_it_moves_without_script_and_loads_nothing():
    svg = animate(Generation(RUNS["mixed"], 3), "Once", TOKENIZER)
    assert not re.search(r"<script|href|url\(|@import|@font-face|\bon\w+=", svg)
    assert "infinite" in svg and "prefers-reduced-motion:reduce){.a{animation:none}}" in svg
    assert svg.index("{animation-name:") < svg.index("animation:none")  # the later rule wins
    assert STORED.stat().st_size < 60_000


def test_each_fate_has_a_mark_of_its_own():
    assert len(set(MARKS.values())) == len(MARKS) == 6


def test_in_the_still_picture_no_mark_lies_on_another():
    figure = draw_run(Generation(RUNS["mixed"], 3))
    marks = [tuple(at) for fate in figure.axes[0].collections for at in fate.get_offsets().tolist()]
    assert len(marks) == sum(len(fates(round)) for round in RUNS["mixed"])
    for i, (x, y) in enumerate(marks):
        assert all(x != other_x or abs(y - other_y) > 0.3 for other_x, other_y in marks[:i])


@pytest.mark.slow
def test_the_stored_picture_is_what_the_command_draws(tmp_path):
    main(["--out", str(tmp_path / "run.svg")])
    drawn = (tmp_path / "run.svg").read_bytes()
    run = recorded()
    assert drawn.decode() == animate(run, PROMPT, TOKENIZER) == animate(run, PROMPT, TOKENIZER)
    ours, stored = ET.fromstring(drawn), ET.parse(STORED).getroot()
    for number in range(1, len(run.rounds) + 1):
        fates_and_tokens = [[box[:2] for box in boxes(root, number)] for root in (ours, stored)]
        assert fates_and_tokens[0] == fates_and_tokens[1] != []
    assert stored.find(f"{SVG}desc").text == ours.find(f"{SVG}desc").text
    assert {0, run.gamma} < {round.accepted for round in run.rounds}  # and something between
