"""Text as it is committed: whole characters only, each token in the colour of its origin."""
import codecs
import re
from collections.abc import Collection
from typing import TextIO

from decoding.cli.styles import RESET, STYLES
from decoding.result import Round
from decoding.stop import Stop
from weights.terminal import Wrap

LEGEND = (f"{STYLES['accepted']}accepted draft{RESET}   "
          f"{STYLES['correction']}correction by the target{RESET}   "
          f"{STYLES['bonus']}bonus from the target{RESET}")
REJECTED = f"{STYLES['rejected']}rejected{RESET}"  # the rest of the legend


class TextStream:
    """Write tokens to `out` as text.

    A character whose bytes are spread over several tokens is written with the last of them, so that
    what was written joins to exactly what one decode of all ids gives. Of the
    `silent` ids, such as end-of-text, none is ever written.
    wrap: the terminal that `out` is. A word is then written when it is whole, so that lines end
    between words; None changes nothing.
    rejected: also show the tokens that were rejected, before the one that corrects them. They are
    no part of `text`.
    stop: what may be the beginning of a stop string waits until it is known whether it is. What
    belongs to one is never written.
    """

    def __init__(self, out: TextIO | None, tokenizer, silent: Collection[int], color: bool,
                 wrap: Wrap | None = None, rejected: bool = False,
                 stop: Stop | None = None) -> None:
        self.out, self.tokenizer, self.silent = out, tokenizer, silent
        self.color, self.wrap, self.rejected = color, wrap, rejected
        self.word: list[tuple[str, str]] = []  # characters not written yet, and their origin
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.text = ""
        self.stop = stop
        self.held: list[tuple[bytes, str]] = []  # bytes that wait, and their origin

    def write_round(self, round: Round) -> None:
        """Write what one round emitted."""
        for i, token in enumerate(round.emitted):
            if self.rejected and i == round.accepted:
                for thrown_away in round.drafted[i:round.tested]:
                    self.show_rejected(self.tokenizer.decode_single_token_bytes(thrown_away))
            if token not in self.silent:
                self.hold(self.tokenizer.decode_single_token_bytes(token),
                          "accepted" if i < round.accepted else round.kind)
        self.flush()

    def hold(self, token: bytes, origin: str) -> None:
        """Write what waited and a token, but for what may begin a stop string."""
        self.held.append((token, origin))
        data = b"".join(part for part, _ in self.held)
        text = data if self.stop is None else self.stop.cut(data)
        waits = self.stop is not None and text == data and self.stop.waiting(data)
        self.release(len(text) - waits)
        if text != data:
            self.held = []  # the text has ended

    def release(self, n: int) -> None:
        """Write the first n of the bytes that wait."""
        while n > 0:
            (part, origin), rest = self.held[0], self.held[1:]
            self.write(self.decoder.decode(part[:n]), origin)
            self.held = ([(part[n:], origin)] if len(part) > n else []) + rest
            n -= len(part)

    def show_rejected(self, token: bytes) -> None:
        """Write a token that is no part of the text. A line does not end where it says so."""
        characters = token.decode("utf-8", errors="replace").replace("\n", "\\n")
        word = characters.lstrip()
        if not self.color:
            characters = f"{characters[:len(characters) - len(word)]}~~{word}~~"
        self.show(characters, "rejected")

    def close(self) -> None:
        """Write what is left of a character that never became whole, as a decode of all ids would.

        That is U+FFFD. And what waited: no stop string came of it.
        """
        self.release(sum(len(part) for part, _ in self.held))
        self.write(self.decoder.decode(b"", final=True), "bonus")
        self.end_word()
        self.flush()

    def write(self, characters: str, origin: str) -> None:
        self.text += characters
        self.show(characters, origin)

    def show(self, characters: str, origin: str) -> None:
        """Write what is seen, whether it is text or not; a word only when it is whole."""
        if self.wrap is None:
            self.paint(characters, origin)
            return
        for part in re.findall(r"\n| |[^ \n]+", characters):
            if part in " \n" and (part == "\n" or any(seen != " " for seen, _ in self.word)):
                self.end_word()
            self.word.append((part, origin))
            if part == "\n":
                self.end_word()

    def end_word(self) -> None:
        """Write the word that is whole now, on a new line if this one has no room for it."""
        word, self.word = self.word, []
        if self.wrap is not None and self.wrap.breaks_before("".join(part for part, _ in word)):
            self.paint("\n", "")
            word = [(part, origin) for part, origin in word if part != " "]
        for part, origin in word:
            self.paint(part, origin)

    def paint(self, characters: str, origin: str) -> None:
        """Write characters in the colour of their origin."""
        if self.out is not None and characters:
            word = characters.lstrip()  # a space before a word is not underlined
            if self.color and word and origin:
                characters = characters[:-len(word)] + STYLES[origin] + word + RESET
            self.out.write(characters)

    def end_line(self) -> None:
        """Write the word that has begun: a table comes next, and then a new line."""
        self.end_word()
        self.flush()
        if self.wrap is not None:
            self.wrap.column = 0

    def flush(self) -> None:
        if self.out is not None:
            self.out.flush()
