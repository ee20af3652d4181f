"""The prompt, and the refusals that need no weights. Imports no torch."""
import argparse
import sys
from dataclasses import dataclass

import tiktoken

from decoding.cli.options import LOOKUP
from weights.config import read_context
from weights.errors import WeightsError
from weights.tokenizer import load_tokenizer, vocabulary_difference


@dataclass(frozen=True)
class Prompt:
    """The text to be continued, and its ids in the target's vocabulary."""

    text: str
    ids: list[int]
    tokenizer: tiktoken.Encoding


def read_prompt(options: argparse.Namespace) -> Prompt:
    """Read and encode the text to continue.

    Raises ValueError if it cannot be read, is not UTF-8 or is too long for the target, or if the
    draft has another vocabulary.
    """
    text = read_text(options.prompt, options.prompt_file)
    tokenizer = shared_tokenizer(options)
    return as_prompt(text, tokenizer, options.allow_special, read_context(options.target))


def shared_tokenizer(options: argparse.Namespace) -> tiktoken.Encoding:
    """Return the target's tokenizer. Raises WeightsError if the draft has another vocabulary."""
    tokenizer = load_tokenizer(options.target)
    if options.draft not in (None, LOOKUP):
        difference = vocabulary_difference(tokenizer, load_tokenizer(options.draft))
        if difference:
            raise WeightsError(f"{options.target} and {options.draft} have different vocabularies: "
                               f"{difference}; choose another --draft")
    return tokenizer


def as_prompt(text: str, tokenizer: tiktoken.Encoding, allow_special: bool, n_ctx: int) -> Prompt:
    """Encode a text. Raises ValueError if it is longer than the target's context, n_ctx."""
    ids = encode(text, tokenizer, allow_special)
    if len(ids) > n_ctx:
        raise ValueError(f"the prompt has {len(ids)} tokens, but the target's context is "
                         f"{n_ctx}; shorten it")
    return Prompt(text, ids, tokenizer)


def read_text(prompt: str | None, file: str | None) -> str:
    """Return `prompt`, or what is in the file. Raises ValueError as `read_prompt` does."""
    where = "the prompt" if file is None else f"the prompt file {file}"
    try:
        if file is not None:
            return read_file(file).decode("utf-8-sig")  # without the mark some editors begin with
        # Bytes of the command line that are not in the console's encoding are hidden as surrogates.
        return (prompt or "").encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError as error:
        raise ValueError(f"{where} is not UTF-8 ({error}); convert it to UTF-8") from error
    except OSError as error:
        raise ValueError(f"cannot read {where}: {error.strerror}; "
                         "give a text file, or - for stdin") from error


def read_file(name: str) -> bytes:
    """Return what is in a file; - is stdin."""
    if name == "-":
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


def encode(text: str, tokenizer: tiktoken.Encoding, allow_special: bool) -> list[int]:
    """Return the ids of a prompt.

    Those of an empty one are <|endoftext|>, which GPT-2 was trained to start from.
    """
    if allow_special:
        ids = tokenizer.encode(text, allowed_special="all")
    else:
        ids = tokenizer.encode(text, disallowed_special=())
    return ids or [tokenizer.eot_token]
