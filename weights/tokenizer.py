"""load_tokenizer: from a name to the tokenizer of a model.

A vocabulary file of this project has tiktoken's own format: a line for each token, its bytes in
base64, a space, its rank, which is also its id. gpt2.tiktoken was made from OpenAI's vocab.bpe and
encoder.json (MIT licence) with `tiktoken.load.data_gym_to_mergeable_bpe_ranks`, and has come out
equal, byte for byte, to the r50k_base.tiktoken that OpenAI publishes. It is part of this project,
so GPT-2's tokenizer never needs the network. Nothing here imports torch.
"""
import base64
import hashlib
import os
from functools import lru_cache
from pathlib import Path

import tiktoken

from weights.config import Ends, read_config, read_ends
from weights.cuts import GPT2_PATTERN
from weights.errors import WeightsError
from weights.files import reading
from weights.hub import find_file, first_of
from weights.hub_vocabulary import read_tokenizer_json, read_vocab_and_merges
from weights.registry import OFFICIAL, Repository, resolve
from weights.vocabulary import Tokenizer

END_OF_TEXT = "<|endoftext|>"
GPT2_FILE = Path(__file__).parent / "gpt2.tiktoken"
SHA256 = {  # of the vocabularies that are part of this project, by file name, wherever they lie
    "gpt2.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "tales.tiktoken": "2fd5265b628b19a532cc762293d1c6361c770882d2a4dca9e1a8a943a779772e",
}
GPT2_N_VOCAB = 50257
CUT_AS_GPT2 = ("gpt2", "gpt_neo", "opt")  # the families whose vocab.json and merges.txt suffice


def load_tokenizer(name_or_path: str | os.PathLike) -> Tokenizer:
    """Load a model's tokenizer.

    It is the one *.tiktoken file in its folder; else the one in tokenizer.json; else that in
    vocab.json and merges.txt; else GPT-2's, for a GPT-2 or a GPT-Neo whose embedding has a row for
    each of its 50,257 tokens, and fewer than 1,024 more, which are padding.

    Raises WeightsError if there is no vocabulary, it does not fit the model, or is of a kind that
    is not known; DownloadError if a file cannot be fetched.
    """
    source = resolve(name_or_path)
    if isinstance(name_or_path, str) and name_or_path in OFFICIAL:
        return gpt2_tokenizer()
    config = find_file(source, "config.json")
    if isinstance(source, Repository):  # the branch may move between two downloads
        source = Repository(source.id, config.parent.name)
    family, sizes = read_config(config)
    tokenizer = find_tokenizer(source, family, sizes["n_rows"])
    if tokenizer is None:
        where = source.id if isinstance(source, Repository) else source
        raise WeightsError(f"{where} has {sizes['n_rows']} tokens and no vocabulary: no *.tiktoken "
                           "file, no tokenizer.json, no vocab.json with merges.txt")
    return tokenizer


def find_tokenizer(source: Path | Repository, family: str, n_rows: int) -> Tokenizer | None:
    """Return the tokenizer of a model with n_rows in its embedding; None if there is none.

    Raises as `load_tokenizer` does.
    """
    file = None if isinstance(source, Repository) else own_vocabulary(source)
    if file is not None:
        tokenizer = read_vocabulary(file)
        check_fits(tokenizer.n_vocab, n_rows, file)
        return tokenizer
    there = first_of(source, "tokenizer.json", "merges.txt")
    if there is None:
        ours = family in ("gpt2", "gpt_neo") and fits(GPT2_N_VOCAB, n_rows)
        return gpt2_tokenizer() if ours else None
    path = find_file(source, there.replace("merges.txt", "vocab.json"))
    if there == "merges.txt":
        if family not in CUT_AS_GPT2:
            raise WeightsError(f"{path} does not say how a {family} cuts text: its tokenizer.json "
                               "is needed")
        find_file(source, there)  # to lie beside it
    with reading(path):
        changed = path.stat().st_mtime_ns
    tokenizer = read_once(path, changed, read_ends(find_file(source, "config.json")))
    if tokenizer.n_vocab > n_rows:
        raise WeightsError(f"{path} has {tokenizer.n_vocab} tokens, but the embedding only "
                           f"{n_rows} rows")
    return tokenizer


@lru_cache(maxsize=4)
def read_once(path: Path, changed: int, ends: Ends) -> Tokenizer:
    """Read a large vocabulary, which takes up to seconds and is asked for several times.

    changed: when the file was; so one that was exchanged is read again.
    """
    read = read_vocab_and_merges if path.name == "vocab.json" else read_tokenizer_json
    return read(path, ends)


def count_tokens(source: Path | Repository, family: str, n_rows: int) -> int:
    """Return how many of the embedding's n_rows stand for a text; the rest is padding.

    Where no vocabulary is known, all do. Raises WeightsError if the vocabulary is no good or does
    not fit.
    """
    tokenizer = find_tokenizer(source, family, n_rows)
    return n_rows if tokenizer is None else tokenizer.n_vocab


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


def gpt2_tokenizer() -> Tokenizer:
    """Load the official GPT-2 vocabulary; `<|endoftext|>` is 50256.

    Raises WeightsError if the file is not the one committed.
    """
    return read_vocabulary(GPT2_FILE)


def read_vocabulary(path: Path) -> Tokenizer:
    """Read the tokenizer in a file: its tokens, `<|endoftext|>` after the last, GPT-2's pattern.

    Raises WeightsError as `read_ranks` does.
    """
    return to_tokenizer(path.stem, read_ranks(path))


def to_tokenizer(name: str, ranks: dict[bytes, int]) -> Tokenizer:
    """Return a tokenizer of GPT-2's kind with these tokens, and `<|endoftext|>` after the last."""
    end = len(ranks)
    encoding = tiktoken.Encoding(name, pat_str=GPT2_PATTERN, mergeable_ranks=ranks,
                                 special_tokens={})
    return Tokenizer(encoding, range(end), (end,), special={END_OF_TEXT: end})


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


def vocabulary_difference(a: Tokenizer, b: Tokenizer) -> str | None:
    """Return the first difference between two vocabularies, in one line; None if there is none."""
    if a.n_vocab != b.n_vocab:
        return f"{a.n_vocab} tokens against {b.n_vocab}"
    for token in range(a.n_vocab):
        one, other = a.decode_single_token_bytes(token), b.decode_single_token_bytes(token)
        if one != other:
            return f"id {token} is {one!r} in one and {other!r} in the other"
    return None


def show_token(token: int, tokenizer: Tokenizer) -> str:
    """Return a token as it can be printed: quoted, spaces and line breaks visible.

    Half a character is shown as bytes.
    """
    raw = tokenizer.decode_single_token_bytes(token)
    try:
        return repr(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(raw)
