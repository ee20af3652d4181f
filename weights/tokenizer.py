"""Tokenizers: byte pair encoding by tiktoken, with GPT-2's vocabulary or a smaller one of the same kind.

A vocabulary file has tiktoken's own format: a line for each token, its bytes in base64, a space, its rank, which is also
its id. gpt2.tiktoken was made from OpenAI's vocab.bpe and encoder.json (MIT licence) with
`tiktoken.load.data_gym_to_mergeable_bpe_ranks`, and has come out equal, byte for byte, to the r50k_base.tiktoken that
OpenAI publishes. It is part of this project, so no tokenizer ever needs the network. Nothing here imports torch.
"""
import base64
import hashlib
import os
from pathlib import Path

import tiktoken

from weights.config import read_config
from weights.errors import WeightsError
from weights.hub import fetch
from weights.registry import OFFICIAL, Repository, resolve

END_OF_TEXT = "<|endoftext|>"
# How text is cut into pieces before any merging: contractions, words, numbers, other signs, spaces. GPT-2's pattern in
# the form tiktoken gives it: "++", which never gives back what it took, and "\s++$" change no piece and only save time.
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
GPT2_FILE = Path(__file__).parent / "gpt2.tiktoken"
GPT2_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
GPT2_N_VOCAB = 50257


def load_tokenizer(name_or_path: str | os.PathLike) -> tiktoken.Encoding:
    """The tokenizer of a model: the one *.tiktoken file in its folder, else GPT-2's if it has 50,257 tokens.

    Of a repository of the hub only the number of tokens is looked at. Raises WeightsError if there is no vocabulary, or
    it does not fit the model; DownloadError if a repository's config.json cannot be fetched.
    """
    source = resolve(name_or_path)
    if name_or_path in OFFICIAL:
        return gpt2_tokenizer()
    if isinstance(source, Repository):
        return _gpt2_if_it_fits(read_config(fetch(source, "config.json"))["n_vocab"], source.id)
    n_vocab = read_config(source / "config.json")["n_vocab"]
    files = sorted(source.glob("*.tiktoken"))
    if len(files) > 1:
        raise WeightsError(f"{source} has {len(files)} vocabularies, {files[0].name} and {files[1].name}; keep one")
    if not files:
        return _gpt2_if_it_fits(n_vocab, str(source))
    tokenizer = read_vocabulary(files[0])
    if tokenizer.n_vocab != n_vocab:
        raise WeightsError(f"{files[0]} has {tokenizer.n_vocab} tokens with {END_OF_TEXT}, but config.json says {n_vocab}")
    return tokenizer


def gpt2_tokenizer() -> tiktoken.Encoding:
    """The official GPT-2 vocabulary; `<|endoftext|>` is 50256. Raises WeightsError if the file is not the one committed."""
    if hashlib.sha256(GPT2_FILE.read_bytes()).hexdigest() != GPT2_SHA256:
        raise WeightsError(f"{GPT2_FILE} has been changed or damaged; restore it with `git checkout`")
    return read_vocabulary(GPT2_FILE)


def read_vocabulary(path: Path) -> tiktoken.Encoding:
    """The vocabulary in a file, with GPT-2's pattern and `<|endoftext|>` behind the last token.

    Raises WeightsError unless its ranks are 0, 1, 2, … and every single byte is a token, so that any text has ids.
    """
    try:
        lines = [line.split() for line in path.read_bytes().splitlines()]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} is not a vocabulary in tiktoken's format: {error}") from error
    if sorted(ranks.values()) != list(range(len(lines))) or any(bytes([byte]) not in ranks for byte in range(256)):
        raise WeightsError(f"{path} must number its tokens 0, 1, 2, … and have all 256 bytes among them")
    return tiktoken.Encoding(path.stem, pat_str=GPT2_PATTERN, mergeable_ranks=ranks,
                             special_tokens={END_OF_TEXT: len(ranks)}, explicit_n_vocab=len(ranks) + 1)


def vocabulary_difference(a: tiktoken.Encoding, b: tiktoken.Encoding) -> str | None:
    """The first difference between two vocabularies that `load_tokenizer` returned, in one line; None if there is none."""
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


def _gpt2_if_it_fits(n_vocab: int, where: str) -> tiktoken.Encoding:
    if n_vocab != GPT2_N_VOCAB:
        raise WeightsError(f"{where} has {n_vocab} tokens, so its vocabulary is not GPT-2's; its folder needs a *.tiktoken file")
    return gpt2_tokenizer()
