"""Tokenizers: byte pair encoding by tiktoken, with GPT-2's vocabulary or a smaller one like it.

A vocabulary file has tiktoken's own format: a line for each token, its bytes in base64, a space,
its rank, which is also its id. gpt2.tiktoken was made from OpenAI's vocab.bpe and encoder.json (MIT
licence) with `tiktoken.load.data_gym_to_mergeable_bpe_ranks`, and has come out equal, byte for
byte, to the r50k_base.tiktoken that OpenAI publishes. It is part of this project, so no tokenizer
ever needs the network. Nothing here imports torch.
"""
import base64
import hashlib
import os
from pathlib import Path

import tiktoken

from weights.config import read_config
from weights.errors import WeightsError
from weights.files import reading
from weights.hub import fetch
from weights.registry import OFFICIAL, Repository, resolve

END_OF_TEXT = "<|endoftext|>"
# How text is cut into pieces before any merging: contractions, words, numbers, other signs, spaces.
# GPT-2's pattern in the form tiktoken gives it: "++", which never gives back what it took, and
# "\s++$" change no piece and only save time.
GPT2_PATTERN = (r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++"""
                r"""|\s++$|\s+(?!\S)|\s""")
GPT2_FILE = Path(__file__).parent / "gpt2.tiktoken"
SHA256 = {  # of the vocabularies that are part of this project, by file name, wherever they lie
    "gpt2.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "tales.tiktoken": "2fd5265b628b19a532cc762293d1c6361c770882d2a4dca9e1a8a943a779772e",
}
GPT2_N_VOCAB = 50257


def load_tokenizer(name_or_path: str | os.PathLike) -> tiktoken.Encoding:
    """Load a model's tokenizer: the one *.tiktoken file in its folder, else GPT-2's if it fits.

    GPT-2's fits a model whose embedding has a row for each of its 50,257 tokens, and fewer than
    1,024 more, which are padding. Of a repository of the hub only the number of rows is looked at.

    Raises WeightsError if there is no vocabulary, or it does not fit the model; DownloadError if a
    repository's config.json cannot be fetched.
    """
    source = resolve(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in OFFICIAL:
        return gpt2_tokenizer()
    if isinstance(source, Repository):
        file, config = None, fetch(source, "config.json")
    else:
        file, config = own_vocabulary(source), source / "config.json"
    n_rows = read_config(config)[1]["n_rows"]
    if file is not None:
        tokenizer = read_vocabulary(file)
        check_fits(tokenizer.n_vocab, n_rows, file)
        return tokenizer
    if not fits(GPT2_N_VOCAB, n_rows):
        where = source.id if isinstance(source, Repository) else source
        raise WeightsError(f"{where} has {n_rows} tokens, so its vocabulary is not GPT-2's; "
                           "its folder needs a *.tiktoken file")
    return gpt2_tokenizer()


def count_tokens(source: Path | Repository, n_rows: int) -> int:
    """Return how many of the embedding's n_rows stand for a text; the rest is padding.

    Where no vocabulary is known, all do. Raises WeightsError if the folder's own vocabulary is no
    good or does not fit.
    """
    file = None if isinstance(source, Repository) else own_vocabulary(source)
    if file is None:
        return GPT2_N_VOCAB if fits(GPT2_N_VOCAB, n_rows) else n_rows
    n_vocab = len(read_ranks(file)) + 1
    check_fits(n_vocab, n_rows, file)
    return n_vocab


def own_vocabulary(folder: Path) -> Path | None:
    """Return the *.tiktoken file of a folder, if there is one. Raises WeightsError for more."""
    with reading(folder):  # unlike glob, iterdir says so where it may not look
        files = sorted(path for path in folder.iterdir() if path.suffix == ".tiktoken")
    if len(files) > 1:
        raise WeightsError(f"{folder} has {len(files)} vocabularies, "
                           f"{files[0].name} and {files[1].name}; keep one")
    return files[0] if files else None


def fits(n_vocab: int, n_rows: int) -> bool:
    """Return whether an embedding of n_rows can be one for n_vocab tokens: it may be padded.

    Padding is a few rows for added special tokens, or up to the next multiple of 64, …, 1024.
    """
    return n_vocab <= n_rows < n_vocab + 1024


def check_fits(n_vocab: int, n_rows: int, file: Path) -> None:
    """Raise WeightsError unless the vocabulary in this file fits the embedding."""
    if not fits(n_vocab, n_rows):
        raise WeightsError(f"{file} has {n_vocab} tokens with {END_OF_TEXT}, but config.json says "
                           f"{n_rows}; with padding it may be up to {n_vocab + 1023}")


def gpt2_tokenizer() -> tiktoken.Encoding:
    """Load the official GPT-2 vocabulary; `<|endoftext|>` is 50256.

    Raises WeightsError if the file is not the one committed.
    """
    return read_vocabulary(GPT2_FILE)


def encode(text: str, tokenizer: tiktoken.Encoding, allow_special: bool = False) -> list[int]:
    """Return the ids of a text, in which <|endoftext|> is text like any other.

    allow_special: it is the token.
    Raises ValueError for a million spaces or line breaks in a row, which tiktoken's regular
    expression cannot bear. (`encode_ordinary` would panic, beyond what Python can catch.)
    """
    try:
        return tokenizer.encode(text, allowed_special="all" if allow_special else set(),
                                disallowed_special=())
    except ValueError as error:
        raise ValueError("a text with a million spaces or line breaks in a row cannot be cut into "
                         f"tokens ({error}); shorten them") from error


def read_vocabulary(path: Path) -> tiktoken.Encoding:
    """Read the tokenizer in a file: its tokens, `<|endoftext|>` after the last, GPT-2's pattern.

    Raises WeightsError as `read_ranks` does.
    """
    ranks = read_ranks(path)
    return tiktoken.Encoding(
        path.stem, pat_str=GPT2_PATTERN, mergeable_ranks=ranks,
        special_tokens={END_OF_TEXT: len(ranks)}, explicit_n_vocab=len(ranks) + 1)


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read the tokens in a file and their ids.

    Raises WeightsError unless the ids are 0, 1, 2, … and every single byte is a token, so that any
    text has ids; and for one of this project's vocabularies that is not as it was committed.
    """
    with reading(path):
        contents = path.read_bytes()
    if SHA256.get(path.name, found := hashlib.sha256(contents).hexdigest()) != found:
        raise WeightsError(f"{path} has been changed or damaged; restore it with `git checkout`, "
                           "or rename it if it is a vocabulary of your own")
    try:
        lines = [line.split() for line in contents.splitlines()]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except ValueError as error:
        raise WeightsError(f"{path} is not a vocabulary in tiktoken's format: {error}") from error
    numbered = sorted(ranks.values()) == list(range(len(lines)))
    if not numbered or any(bytes([byte]) not in ranks for byte in range(256)):
        raise WeightsError(f"{path} must number its tokens 0, 1, 2, … "
                           "and have all 256 bytes among them")
    return ranks


def vocabulary_difference(a: tiktoken.Encoding, b: tiktoken.Encoding) -> str | None:
    """Return the first difference between two vocabularies, in one line; None if there is none."""
    if a.n_vocab != b.n_vocab:
        return f"{a.n_vocab} tokens against {b.n_vocab}"
    for token in range(a.n_vocab):
        one, other = a.decode_single_token_bytes(token), b.decode_single_token_bytes(token)
        if one != other:
            return f"id {token} is {one!r} in one and {other!r} in the other"
    return None


def show_token(token: int, tokenizer: tiktoken.Encoding) -> str:
    """Return a token as it can be printed: quoted, spaces and line breaks visible.

    Half a character is shown as bytes.
    """
    raw = tokenizer.decode_single_token_bytes(token)
    try:
        return repr(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(raw)
