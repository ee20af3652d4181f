"""From a text to token ids: its documents, a vocabulary made for it, and the part held out.

Imports no torch.
"""
import base64
import hashlib
import random
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weights.files import read_bytes, to_text
from weights.memory import total_memory
from weights.terminal import one_line
from weights.tokenizer import END_OF_TEXT, GPT2_N_VOCAB, gpt2_tokenizer
from weights.tokenizer import to_tokenizer as tokenizer_of
from weights.vocabulary import Tokenizer

SMALLEST_VOCABULARY = 256 + 1  # every byte, so that any text has ids, and <|endoftext|>
LARGEST_VOCABULARY = GPT2_N_VOCAB
HELD_OUT_SHARE = 0.05


@dataclass(frozen=True)
class Corpus:
    """A text ready for training: ids of `vocabulary`, each document followed by <|endoftext|>."""

    name: str
    digests: list[str]  # SHA-256 of the file, and of the one held out if there is one
    n_documents: int
    n_characters: int
    vocabulary: list[bytes]  # the bytes of token 0, 1, 2, …; <|endoftext|> comes after the last
    train: array
    held_out: array
    held_out_from: str  # where the held-out text is from, in words


def prepare(text: Path, held_out: Path | None, n_vocab: int, context: int) -> Corpus:
    """Return a text encoded in a vocabulary of its own, with a part set aside to measure on.

    That part is a file of its own, or 5 % of the tokens. The documents are shuffled first, so that
    the 5 % at the end are no author's last book; the end of a single document is simply its end.
    Raises ValueError for a text that cannot be read, or gives no block of `context` tokens and the
    one after them, to train on or to measure on.
    """
    documents, *digests = read_documents(text)
    other_documents: list[str] = []
    if held_out:
        other_documents, digest = read_documents(held_out)
        digests.append(digest)
    vocabulary = choose_vocabulary(documents, n_vocab)
    tokenizer = to_tokenizer(vocabulary)
    random.Random(0).shuffle(documents)
    train = encode_all(documents, tokenizer)
    block = context + 1
    name = one_line(text.name)
    if held_out:
        rest, origin = encode_all(other_documents, tokenizer), one_line(held_out.name)
        check_length(rest, block, held_out)
    else:
        n = max(int(HELD_OUT_SHARE * len(train)), block)
        check_length(train, 2 * block, text)
        train, rest = train[:-n], train[-n:]
        origin = f"the last {n:,} tokens of {name}, its documents shuffled"
    check_length(train, block, text)
    n_characters = sum(map(len, documents))
    return Corpus(name, digests, len(documents), n_characters, vocabulary, train, rest, origin)


def read_documents(path: Path) -> tuple[list[str], str]:
    """Return the documents of a UTF-8 text, which `<|endoftext|>` separates, and its SHA-256.

    Space around them is left out. The file is read once, so it may be a pipe. Raises ValueError if
    it cannot be read, is not UTF-8, or holds nothing but space.
    """
    # As bytes, as text and as ids a text takes more than four times its size.
    most = int(min(total_memory("cpu") / 4, sys.maxsize))
    data = read_bytes(path, str(path), most, "a quarter of this machine's memory")
    text = re.sub(r"\r\n?", "\n", to_text(data, str(path)))
    documents = [document.strip() for document in text.split(END_OF_TEXT) if document.strip()]
    if not documents:
        raise ValueError(f"{path} is empty")
    return documents, hashlib.sha256(data).hexdigest()


def choose_vocabulary(documents: Iterable[str], n_vocab: int) -> list[bytes]:
    """Return the n_vocab - 1 tokens of GPT-2 that the documents use most, in GPT-2's order.

    All 256 single bytes are among them. The order is the priority of the merges, so words are still
    put together the way GPT-2 does. Fewer tokens come back if the documents use no more. Raises
    ValueError for a size without room for the bytes, or larger than GPT-2's.
    """
    if not SMALLEST_VOCABULARY <= n_vocab <= LARGEST_VOCABULARY:
        raise ValueError(f"a vocabulary has from {SMALLEST_VOCABULARY} to {LARGEST_VOCABULARY} "
                         f"tokens, not {n_vocab}")
    gpt2, used = gpt2_tokenizer(), Counter[int]()
    for document in documents:
        used.update(gpt2.encode(document))
    keep = {id for id, token in enumerate(gpt2.token_byte_values()) if len(token) == 1}
    for token, _ in used.most_common():
        if len(keep) == n_vocab - 1:
            break
        keep.add(token)
    return [gpt2.decode_single_token_bytes(token) for token in sorted(keep)]


def to_tokenizer(vocabulary: list[bytes]) -> Tokenizer:
    """Return what `weights.load_tokenizer` will make of the vocabulary once it is written."""
    return tokenizer_of("corpus", {token: rank for rank, token in enumerate(vocabulary)})


def vocabulary_file(vocabulary: list[bytes]) -> bytes:
    """Return the vocabulary in tiktoken's format.

    A line for each token: its bytes in base64, a space, its rank.
    """
    return b"".join(base64.b64encode(token) + b" %d\n" % rank
                    for rank, token in enumerate(vocabulary))


def encode_all(documents: Iterable[str], tokenizer: Tokenizer) -> array:
    """Return the ids of all documents in one row of 32-bit integers.

    Each document is followed by <|endoftext|>.
    """
    ids = array("i")
    for document in documents:
        ids.extend(tokenizer.encode(document))
        ids.append(tokenizer.eot_token)
    return ids


def check_length(ids: array, least: int, path: Path) -> None:
    """Raise ValueError for fewer than `least` ids."""
    if len(ids) < least:
        raise ValueError(f"{path} has only {len(ids)} tokens, but at least {least} are needed; "
                         "give more text, or a shorter --context")
