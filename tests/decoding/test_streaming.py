"""Text as it is committed: whole characters, exactly what one decode gives, in colours."""
import io
import random
import re
import sys

import pytest

from decoding.cli.console import wants_color
from decoding.cli.streaming import LEGEND, REJECTED, TextStream
from decoding.cli.styles import STYLES
from decoding.result import Round
from weights import load_tokenizer
from weights.terminal import Wrap

TOKENIZER = load_tokenizer("tales-small")
BYTES = [TOKENIZER.token_byte_values().index(bytes([byte])) for byte in range(256)]
END_OF_TEXT = TOKENIZER.eot_token
TEXT = "naïve 日本語 😀 👩‍👩‍👧 \r\n\x00 مرحبا the end"
COLORS = re.compile(r"\033\[[\d;]*m")


def as_bytes(data):
    """One token for each byte, so that a character is spread over as many as it can be."""
    return [BYTES[byte] for byte in data]


def cut(ids, numbers):
    """Rounds of random lengths that emit `ids`."""
    while ids:
        n = numbers.randint(1, 6)
        block, ids = ids[:n], ids[n:]
        kind = numbers.choice(["correction", "bonus", "none"])
        kept, extra = (block, None) if kind == "none" else (block[:-1], block[-1])
        yield Round([*kept, 0], len(kept), extra, kind, (0, 0), None, None, 0.0)


def stream(rounds, color=False):
    """What was written after each round, and after the end."""
    out = io.StringIO()
    text = TextStream(out, TOKENIZER, [END_OF_TEXT], color)
    seen = []
    for round in rounds:
        text.write_round(round)
        seen.append(out.getvalue())
    text.close()
    assert COLORS.sub("", out.getvalue()) == text.text
    return [*seen, out.getvalue()]


@pytest.mark.parametrize("seed", range(60))
def test_the_stream_joins_to_one_decode(seed):
    numbers = random.Random(seed)
    ids = as_bytes(TEXT.encode()) if seed % 2 else TOKENIZER.encode(TEXT)
    # bytes that are no characters, and ends of text, anywhere
    for _ in range(numbers.randint(0, 12)):
        ids.insert(numbers.randrange(len(ids) + 1),
                   numbers.choice([END_OF_TEXT, *as_bytes(numbers.randbytes(1))]))
    ids = ids[: numbers.randint(1, len(ids))]  # perhaps in the middle of a character
    whole = b"".join(TOKENIZER.decode_single_token_bytes(token)
                     for token in ids if token != END_OF_TEXT)
    assert stream(cut(ids, numbers))[-1] == whole.decode("utf-8", errors="replace")


@pytest.mark.parametrize("data", [b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf0\x9fa",
                                  b"\xe6\x97\xe6\x97\xa5", b"\xc3", b"\x80\xff\xfe"])
def test_every_way_to_cut_broken_bytes(data):
    for seed in range(8):
        written = stream(cut(as_bytes(data), random.Random(seed)))
        assert written[-1] == data.decode("utf-8", errors="replace")


def test_only_whole_characters_are_written():
    ids = as_bytes("é日😀".encode())
    rounds = [Round([token], 1, None, "none", (0, 0), None, None, 0.0) for token in ids]
    assert stream(rounds) == ["", "é", "é", "é", "é日", "é日", "é日", "é日", "é日😀", "é日😀"]


def test_the_colour_says_where_a_token_came_from():
    a, b, c = as_bytes(b"abc")
    rounds = [Round([a, b, b], 1, c, "correction", (0, 0), None, None, 0.0),
              Round([b], 1, c, "bonus", (0, 0), None, None, 0.0),
              Round([a, END_OF_TEXT], 2, None, "none", (0, 0), None, None, 0.0)]
    kept, corrected, bonus = STYLES["accepted"], STYLES["correction"], STYLES["bonus"]
    reset = "\033[0m"
    colored = [(kept, "a"), (corrected, "c"), (kept, "b"), (bonus, "c"), (kept, "a")]
    assert stream(rounds, color=True)[-1] == "".join(f"{how}{text}{reset}" for how, text in colored)
    # told apart without colours, too
    seen = [STYLES[origin] for origin in ("accepted", "correction", "bonus", "rejected")]
    assert len({re.sub(r"38;5;166|[39]\d", "", style) for style in seen}) == 4
    named = [(kept, "accepted"), (corrected, "correction"), (bonus, "bonus")]
    assert all(style + word in LEGEND for style, word in named)


@pytest.mark.parametrize("color, shown", [
    (True, " {accepted}the{reset} {rejected}the{reset}{correction}b{reset}"),
    (False, " the ~~the~~b"),
])
@pytest.mark.parametrize("wrap", [None, 80])
def test_what_was_rejected_is_shown_and_is_no_part_of_the_text(color, shown, wrap):
    [the], [b, line] = TOKENIZER.encode(" the"), as_bytes(b"b\n")
    out = io.StringIO()
    text = TextStream(out, TOKENIZER, [END_OF_TEXT], color, wrap and Wrap(wrap), rejected=True)
    text.write_round(Round([the, the, the], 1, b, "correction", (0, 0), None, None, 0.0))
    text.end_line()
    assert out.getvalue() == shown.format(**STYLES, reset="\033[0m") and text.text == " theb"
    for token in (line, END_OF_TEXT, *as_bytes(b"\xff")):  # none of them ends anything
        text.write_round(Round([token], 0, b, "correction", (0, 0), None, None, 0.0))
    text.close()
    assert text.text == " thebbbb" and "\n" not in out.getvalue()
    assert COLORS.sub("", out.getvalue()).replace("~~", "").endswith(
        "the theb\\nb<|endoftext|>b\ufffdb")


def test_the_program_shows_what_was_rejected(generate):
    options = ["--mode", "speculative", "--temperature", 1, "--seed", 3, "--max-new-tokens", 40]
    plain, shown = generate(*options), generate(*options, "--rejected")
    colored = generate(*options, "--rejected", "--color", "always")
    assert "~~" in shown.out and re.sub("~~.*?~~", "", shown.out).split() == plain.out.split()
    assert STYLES["rejected"] in colored.out and REJECTED in colored.err


def test_no_space_before_a_word_is_underlined():
    [word], spaces = TOKENIZER.encode(" the"), as_bytes(b" \n")
    rounds = [Round([], 0, token, "bonus", (0, 0), None, None, 0.0) for token in (word, *spaces)]
    assert stream(rounds, color=True)[-1] == f" {STYLES['bonus']}the\033[0m \n"


@pytest.mark.parametrize("terminal, choice, variables, colored", [
    (True, "auto", {}, True),
    (True, "auto", {"NO_COLOR": ""}, True),  # by its definition an empty one does not count
    (True, "auto", {"NO_COLOR": "1"}, False),
    (True, "auto", {"TERM": "dumb"}, False),
    (True, "never", {}, False),
    (True, "always", {"NO_COLOR": "1"}, True),
    (False, "auto", {}, False),
    (False, "always", {}, True),
])
def test_when_there_is_colour(monkeypatch, terminal, choice, variables, colored):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert wants_color(choice, sys.stdout) == colored


def test_the_program_streams_exactly_the_text(generate):
    options = ["--max-new-tokens", 40, "--temperature", 2, "--seed", 3, "é"]
    plain = generate(*options)
    colored = generate(*options, "--color", "always")
    assert plain.err.splitlines()[1] == "é"
    assert len(plain.out) > 20 and "\033" not in plain.out + plain.err
    assert COLORS.sub("", colored.out) == plain.out != colored.out
    assert LEGEND in colored.err and LEGEND not in plain.err
    assert generate(*options, "--color", "never").out == plain.out
