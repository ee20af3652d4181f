"""The prompt, and the refusals that need no weights. Imports no torch."""
import argparse
from dataclasses import dataclass

from decoding.cli.models import LOOKUP
from weights.config import read_context
from weights.errors import WeightsError
from weights.files import read_bytes, to_text
from weights.tokenizer import load_tokenizer, vocabulary_difference
from weights.vocabulary import Tokenizer


@dataclass(frozen=True)
class Prompt:
    """The text to be continued, and its ids in the target's vocabulary."""

    text: str
    ids: list[int]
    tokenizer: Tokenizer


def read_prompt(options: argparse.Namespace) -> Prompt:
    """Read and encode the text to continue.

    Raises ValueError if it cannot be read, is not UTF-8 or is too long for the target, or if the
    draft has another vocabulary.
    """
    tokenizer, n_ctx = shared_tokenizer(options), read_context(options.target)
    most = n_ctx * max(map(len, tokenizer.token_byte_values()))
    text = read_text(options.prompt, options.prompt_file, most, f"which are more than {n_ctx} "
                     "tokens, and so more than the target's context")
    return as_prompt(text, tokenizer, options.allow_special, n_ctx)


def shared_tokenizer(options: argparse.Namespace) -> Tokenizer:
    """Return the target's tokenizer. Raises WeightsError if the draft has another vocabulary."""
    tokenizer = load_tokenizer(options.target)
    if options.draft not in (None, LOOKUP):
        difference = vocabulary_difference(tokenizer, load_tokenizer(options.draft))
        if difference:
            raise WeightsError(f"{options.target} and {options.draft} have different vocabularies: "
                               f"{difference}; choose another --draft")
    return tokenizer


def as_prompt(text: str, tokenizer: Tokenizer, allow_special: bool, n_ctx: int) -> Prompt:
    """Encode a text. Raises ValueError if it is longer than the target's context, n_ctx."""
    ids = tokenizer.prompt(text, allow_special)
    if len(ids) > n_ctx:
        raise ValueError(f"the prompt has {len(ids)} tokens, but the target's context is "
                         f"{n_ctx}; shorten it")
    return Prompt(text, ids, tokenizer)


def read_text(prompt: str | None, file: str | None, most: int, why: str) -> str:
    """Return `prompt`, or what is in the file. Raises ValueError as `read_prompt` does.

    most, why: the bytes that a file may have, and what more of them would be.
    """
    if file is not None:
        what = f"the prompt file {file}"
        return to_text(read_bytes(file, what, most, why), what)
    try:
        # Bytes of the command line that are not in the console's encoding are hidden as surrogates.
        return to_text((prompt or "").encode("utf-8", "surrogateescape"), "the prompt")
    except UnicodeEncodeError as error:
        raise ValueError(f"the prompt is not UTF-8 ({error}); convert it to UTF-8") from error
