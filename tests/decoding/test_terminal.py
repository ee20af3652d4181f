"""A narrow terminal: lines end between words; into a file or a pipe everything goes as it is."""
import io
import os
import random
import re
import select
import shutil
import subprocess
import sys

import pytest
import torch

from decoding.acceptance import judge
from decoding.cli.report import table
from decoding.cli.streaming import TextStream
from decoding.cli.styles import STYLES
from decoding.cli.table import Look, bars
from decoding.cli.trace import explain
from decoding.observer import Trace
from decoding.result import Generation, Round
from tests.commands import PROGRAM, ROOT, environment
from weights import load_tokenizer
from weights.terminal import Wrap, columns, show_in_place, width

TOKENIZER = load_tokenizer("tales-small")
BYTES = [TOKENIZER.token_byte_values().index(bytes([byte])) for byte in range(256)]
STYLE = re.compile(r"\033\[[\d;]*m")


@pytest.mark.parametrize("text, folded", [
    ("one two three", "one two\nthree"),
    ("one\ntwo three four", "one\ntwo\nthree\nfour"),
    ("12345678 x", "12345678\nx"),
    ("1234567890 x", "1234567890 x"),  # the terminal itself breaks a word that no line can hold
    ("a   b", "a   b"),
    ("aaaa   bbbb", "aaaa\nbbbb"),
    ("\033[31mred \033[0mgreen", "\033[31mred\n\033[0mgreen"),
    ("日本 語x", "日本 語x"),  # wide characters take two columns: 4 + 1 + 3
    ("日本 語xy", "日本\n語xy"),
    ("", ""),
    (" x \n", " x \n"),
])
def test_lines_end_between_words(text, folded):
    assert Wrap(8).fold(text) == folded


def test_where_the_text_starts_counts():
    assert Wrap(8, column=5).fold("ab c") == "ab\nc"
    assert Wrap(8, column=5).fold(" abc") == "\nabc"


def test_a_terminal_that_says_it_has_no_columns_gets_eighty(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 1

    for module in (os, shutil):  # from Python 3.11 on shutil's never says 0
        monkeypatch.setattr(module, "get_terminal_size", lambda *_: os.terminal_size((0, 0)))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert columns(Terminal()) == 80


@pytest.mark.parametrize("wide", [1, 2, 20, 80])
def test_a_line_shown_in_place_fits_and_is_wiped_away_on_every_terminal(wide, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("weights.terminal.columns", lambda stream: wide)
    for text in ("baseline: 12 of 200 tokens", "x" * 99, ""):
        show_in_place(text)
    shown = sys.stderr.getvalue()
    assert "\033" not in shown and "\n" not in shown  # TERM=dumb knows no more than this
    lines = shown.split("\r")
    assert max(map(len, lines)) <= wide - 1
    assert lines[-2:] == [" " * (wide - 1), ""]
    assert wide < 80 or "baseline: 12 of 200 tokens" in lines


def test_into_a_file_nothing_is_shown_in_place(capsys):
    show_in_place("baseline: 12 of 200 tokens")
    assert capsys.readouterr() == ("", "")


def test_what_is_no_terminal_has_no_width(tmp_path):
    with (tmp_path / "file").open("w") as file:
        assert columns(file) is None
    assert columns(io.StringIO()) is None


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("color", [False, True])
def test_text_comes_as_it_would_be_folded_whole(seed, color):
    numbers = random.Random(seed)
    words = ["".join(numbers.choices("abcé日\n", k=numbers.randint(1, 9))) for _ in range(40)]
    text = " ".join(words)
    ids = [BYTES[byte] for byte in text.encode()]
    out, start = io.StringIO(), numbers.randrange(20)
    stream = TextStream(out, TOKENIZER, TOKENIZER.ends, color, Wrap(20, start))
    while ids:
        n = numbers.randint(1, 6)
        block, ids = ids[:n], ids[n:]
        drafted, extra = block[:-1], block[-1]
        stream.write_round(Round(drafted, len(drafted), extra, "bonus", (0, 0), None, None, 0.0))
    stream.close()
    assert stream.text == text
    shown = STYLE.sub("", out.getvalue())
    assert shown == Wrap(20, start).fold(text)
    assert shown.split() == text.split() and all(width(line) <= 20 for line in shown.split("\n"))
    assert (STYLES["accepted"] in out.getvalue()) == color


def test_the_table_fits_into_60_columns():
    rounds = [Round([1] * 1024, 1024, 2, "bonus", (0, 0), None, "context", 1e-6)] * 9
    runs = {"baseline": Generation(rounds, 0), "speculative": Generation(rounds, 1024)}
    assert max(map(len, table(runs).splitlines())) <= 60


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("wide", [80, 60, 48, 40])
def test_a_round_is_shown_whole_in_any_width(wide, block):
    ids = [TOKENIZER.encode(word)[0] for word in (" the", "\n", " a", " wolf")]
    p, q = (torch.rand(n, TOKENIZER.n_vocab, generator=torch.Generator().manual_seed(n)).softmax(-1)
            for n in (5, 4))
    rule = judge(torch.tensor(ids), q, p) if block else None
    trace = Trace(p, q, p.log(), torch.tensor([0.123, 0.234, 0.345, 0.456]), rule)
    round = Round(ids, 1, ids[0], "correction", (12, 8), (11, 8), None, 0.0, block=block,
                  phase_seconds={"draft": 1e-3, "verify": 2e-3, "accept": 3e-3}, trace=trace)
    plain = explain(1, round, TOKENIZER, look=Look(wide))
    assert all(width(line) <= wide for line in plain.split("\n")), plain
    for u in ("0.123", "0.234", "0.345", "0.456"):
        assert u in plain
    for said in ("' the'", "'\\n'", "' wolf'", "accepted", "REJECTED", "residual", "correction",
                 "12 -> 8", "11 -> 8", "verify 2.0 ms"):
        assert said in plain, plain
    assert plain.count("not tested") == (0 if block else 2)
    assert ("p/q" in plain) is not block
    colored = explain(1, round, TOKENIZER, look=Look(wide, color=True))
    assert STYLE.sub("", colored) == plain
    assert STYLES["rejected"] + "2 '\\n'" in colored
    assert STYLES["accepted"] + "1 ' the'" in colored


def test_a_bar_is_made_of_what_the_console_can_show():
    assert bars([0.5, None, 1], "draft", 1, Look()).cells == ["███", "", "██████"]
    assert bars([0.5], "draft", 1, Look(block="#")).cells == ["###"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("options", [
    ["--mode", "compare"], ["--trace", "--mode", "speculative"], ["--gamma", "-1"],
    ["--target", "tales", "--mode", "baseline"]])
def test_nothing_is_broken_inside_a_word(options):
    prompt = "Once upon a time there was a king who had three daughters, and they lived in"
    command = [*PROGRAM, *options, "--layout", "plain", "--temperature", "0",
               "--max-new-tokens", "60", prompt]
    piped = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True,
                           timeout=180, check=False)
    screen = on_a_terminal(command, 60)
    lines = STYLE.sub("", screen).split("\n")
    assert all(width(line.split("\r")[-1]) <= 60 for line in lines), lines
    words = set(" ".join(lines).split())
    verdict = r"so it .*"  # the clock decides
    # all but the numbers that differ from run to run, and what stands together
    for said in (piped.stdout, re.sub(verdict, "", piped.stderr)):
        said = said.replace(prompt, "").split()[1:] if said == piped.stdout else said.split()
        missing = [word for word in said if word not in words and not re.search(r"\d", word)]
        assert not missing, (missing, lines)


def on_a_terminal(command, wide):
    """What a terminal of this width is sent."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, wide, 0, 0))
    shown = b""
    with subprocess.Popen(command, cwd=ROOT, env=environment(TERM="xterm", NO_COLOR="", COLUMNS=""),
                          stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # the program has ended
                    break
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")
