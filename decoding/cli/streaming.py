"""Text as it is committed: whole characters only, each token in the colour of its origin."""
import codecs
from typing import TextIO

from decoding.result import Round

# Green for accepted tokens, blue for the target's own; without colour: plain, bold, underlined.
STYLES = {"accepted": "\033[32m", "correction": "\033[1;94m", "bonus": "\033[4;94m"}
RESET = "\033[0m"
LEGEND = (f"{STYLES['accepted']}accepted draft{RESET}   "
          f"{STYLES['correction']}correction by the target{RESET}   "
          f"{STYLES['bonus']}bonus from the target{RESET}")


class TextStream:
    """Writes tokens to `out` as text. A character whose bytes are spread over several tokens is
    written with the last of them, so that what was written joins to exactly what one decode of all
    ids gives. `end_of_text` is never written."""

    def __init__(self, out: TextIO | None, tokenizer, end_of_text: int, color: bool) -> None:
        self.out, self.tokenizer, self.end_of_text, self.color = out, tokenizer, end_of_text, color
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
        """Write U+FFFD for a character that never became whole, as a decode of all ids would."""
        self.write(self.decoder.decode(b"", final=True), "bonus")
        self.flush()

    def write(self, characters: str, origin: str) -> None:
        self.text += characters
        if self.out is not None and characters:
            word = characters.lstrip()  # a space before a word is not underlined
            if self.color and word:
                characters = characters[:-len(word)] + STYLES[origin] + word + RESET
            self.out.write(characters)

    def flush(self) -> None:
        if self.out is not None:
            self.out.flush()
