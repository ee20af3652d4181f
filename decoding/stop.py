"""Stop strings: a text ends where one of them is complete, however the tokens cut it.

The bytes of the tokens are searched, not the ids: the same words can be other tokens. And the end
is looked for after every token, also among several that are accepted at once, so every loop ends a
text at the same token. What a rule decided about later tokens then does not count.
"""
from collections.abc import Sequence
from dataclasses import dataclass

from weights.vocabulary import Tokenizer


@dataclass(frozen=True)
class Stop:
    """The strings that end a text.

    Raises ValueError if there is none, or an empty one.
    """

    strings: Sequence[str]
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        if isinstance(self.strings, str) or not self.strings or "" in self.strings:
            raise ValueError("stop must be a list of strings, none of them empty, "
                             f"not {self.strings!r}")

    @property
    def patterns(self) -> list[bytes]:
        return [string.encode("utf-8") for string in self.strings]

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of a text; special tokens, such as end-of-text, have none."""
        return bytes_of(tokens, self.tokenizer)

    def ends(self, new: list[int]) -> bool:
        """Return whether the last of the new tokens completes a stop string.

        Earlier ones are taken to complete none.
        """
        tail = self.bytes_of(new[-1:])
        enough = len(tail) + max(map(len, self.patterns)) - 1
        for token in reversed(new[:-1]):
            if len(tail) >= enough:
                break
            tail = self.bytes_of([token]) + tail
        return self.cut(tail) != tail

    def cut(self, text: bytes) -> bytes:
        """Return the text up to the first stop string, without it."""
        found = [text.find(pattern) for pattern in self.patterns]
        return text[: min((start for start in found if start >= 0), default=len(text))]

    def waiting(self, text: bytes) -> int:
        """Return how many bytes at the end of a text may be the beginning of a stop string."""
        return max((n for pattern in self.patterns for n in range(1, len(pattern))
                    if text.endswith(pattern[:n])), default=0)


def bytes_of(ids: Sequence[int], tokenizer: Tokenizer) -> bytes:
    """Return the bytes of new ids; special tokens, such as end-of-text, have none."""
    return b"".join(tokenizer.decode_single_token_bytes(token) for token in ids
                    if token not in tokenizer.silent)


def text_of(ids: list[int], tokenizer: Tokenizer, stop: Stop | None) -> str:
    """Return the text of new ids, without special tokens and up to a stop string.

    Half a character is U+FFFD.
    """
    text = bytes_of(ids, tokenizer)
    return (text if stop is None else stop.cut(text)).decode("utf-8", errors="replace")
