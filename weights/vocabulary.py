"""Text to ids and back: byte pair encoding by tiktoken, and what a family does around it.

Unicode's form C is Python's own: of characters newer than this Python it changes nothing.

Nothing here imports torch.
"""
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import tiktoken


@dataclass(frozen=True)
class Tokenizer:
    """A model's tokenizer.

    Special tokens, such as `<|endoftext|>`, are text like any other unless they are asked for. One
    that a model draws is not shown.
    """

    encoding: tiktoken.Encoding  # cuts text and merges bytes; its numbers are ranks
    ids: Sequence[int]  # of every rank; mostly the same number, but OPT's are in another order
    ends: tuple[int, ...]  # each of these ids ends a text; the first is the usual one
    first: tuple[int, ...] = ()  # the ids every text begins with, BOS or none
    added: dict[str, int] = field(default_factory=dict)  # cut out of a text before all else
    special: dict[str, int] = field(default_factory=dict)  # the same, where asked for
    unreachable: dict[str, int] = field(default_factory=dict)  # never encoded, but may be drawn
    nfc: bool = False  # whether text is brought into Unicode's form C first

    def __post_init__(self) -> None:
        """Raise ValueError if an id has no text: a model could draw it."""
        if set(self._known) != set(range(len(self._known))):
            hole = next(id for id in range(len(self._known)) if id not in self._known)
            raise ValueError(f"its id {hole} stands for no text")
        for id in (*self.ends, *self.first):
            if id not in self._known:
                raise ValueError(f"there is no token {id}, with which its texts begin or end")

    @cached_property
    def _known(self) -> dict[int, bytes]:
        ranks = enumerate(self.ids)
        known = {id: self.encoding.decode_single_token_bytes(rank) for rank, id in ranks}
        named = {**self.unreachable, **self.added, **self.special}
        return known | {id: text.encode() for text, id in named.items()}

    @property
    def name(self) -> str:
        return self.encoding.name

    @property
    def n_vocab(self) -> int:
        """How many ids stand for a text: 0, 1, … n_vocab - 1."""
        return len(self._known)

    @property
    def eot_token(self) -> int:
        """The id that usually ends a text."""
        return self.ends[0]

    @cached_property
    def silent(self) -> frozenset[int]:
        """The ids that are no part of a text that is shown: those around it, and special ones."""
        return frozenset((*self.ends, *self.first, *self.special.values()))

    def prompt(self, text: str, special: bool = False) -> list[int]:
        """Return what a model is to read, (T,) with T >= 1; `special` as for `encode`.

        A family that begins its texts with BOS gets it. No text at all is the token that ends, and
        so comes before, one.
        """
        return [*self.first, *self.encode(text, special)] or [self.eot_token]

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Return the ids of a text, (T,).

        special: read the names of special tokens as these tokens.
        Raises ValueError for a million spaces or line breaks in a row.
        """
        ids: list[int] = []
        for piece, token in split(text, self.special if special else {}):
            if token is not None:
                ids.append(token)
                continue
            piece = unicodedata.normalize("NFC", piece) if self.nfc else piece
            for part, token in split(piece, self.added):
                ids += ([self.ids[rank] for rank in to_ranks(part, self.encoding)]
                        if token is None else [token])
        return ids

    def decode(self, ids: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids. Half a character is U+FFFD; `errors` as for `bytes.decode`."""
        return b"".join(self._known[int(id)] for id in ids).decode("utf-8", errors)

    def decode_single_token_bytes(self, id: int) -> bytes:
        """Return the bytes that an id stands for. Raises KeyError for one that is no token."""
        return self._known[int(id)]

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of every id."""
        return [self._known[id] for id in range(self.n_vocab)]


def to_ranks(text: str, encoding: tiktoken.Encoding) -> list[int]:
    """Return the ranks of a text, in which no token is special.

    Raises ValueError for a million spaces or line breaks in a row, which tiktoken's regular
    expression cannot bear. (`encode_ordinary` would panic, beyond what Python can catch.)
    """
    try:
        return encoding.encode(text, allowed_special=set(), disallowed_special=())
    except ValueError as error:
        raise ValueError("a text with a million spaces or line breaks in a row cannot be cut into "
                         f"tokens ({error}); shorten them") from error


def split(text: str, tokens: dict[str, int]) -> Iterator[tuple[str, int | None]]:
    """Cut a text at these tokens, the longest that fits: (token, its id), (what is between, None).

    tiktoken's own special tokens will not do: of " " and "  " it takes any that fits.
    """
    if not tokens:
        yield text, None
        return
    longest_first = sorted(tokens, key=len, reverse=True)
    for piece in re.split(f"({'|'.join(map(re.escape, longest_first))})", text):
        if piece:
            yield piece, tokens.get(piece)
