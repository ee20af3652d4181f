"""Text as it is committed: whole characters only, each token in the colour of its origin."""
import codecs
import re
from typing import TextIO

from decoding.result import Round
from weights.terminal import Wrap

# Green for accepted tokens, blue for the target's own; without colour: plain, bold, underlined.
STYLES = {"accepted": "\033[32m", "correction": "\033[1;94m", "bonus": "\033[4;94m"}
RESET = "\033[0m"
LEGEND = (f"{STYLES['accepted']}accepted draft{RESET}   "
          f"{STYLES['correction']}correction by the target{RESET}   "
          f"{STYLES['bonus']}bonus from the target{RESET}")


class TextStream:
    """Write tokens to `out` as text.

    A character whose bytes are spread over several tokens is written with the last of them, so that
    what was written joins to exactly what one decode of all ids gives. `end_of_text` is never
    written.
    wrap: the terminal that `out` is. A word is then written when it is whole, so that lines end
    between words; None changes nothing.
    """

    def __init__(self, out: TextIO | None, tokenizer, end_of_text: int, color: bool,
                 wrap: Wrap | None = None) -> None:
        self.out, self.tokenizer, self.end_of_text = out, tokenizer, end_of_text
        self.color, self.wrap = color, wrap
        self.word: list[tuple[str, str]] = []  # characters not written yet, and their origin
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.text = ""

    def write_round(self, round: Round) -> None:
        """Write what one round emitted."""
        for i, token in enumerate(round.emitted):
            if token != self.end_of_text:
                characters = self.decoder.decode(self.tokenizer.decode_single_token_bytes(token))
                self.write(characters, "accepted" if i < round.accepted else round.kind)
        self.flush()

    def close(self) -> None:
        """Write what is left of a character that never became whole, as a decode of all ids would.

        That is U+FFFD.
        """
        self.write(self.decoder.decode(b"", final=True), "bonus")
        self.end_word()
        self.flush()

    def write(self, characters: str, origin: str) -> None:
        self.text += characters
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

    def flush(self) -> None:
        if self.out is not None:
            self.out.flush()
