"""The prompt as ids, and the refusals that need no weights. Imports no torch."""
import argparse
from dataclasses import dataclass

import tiktoken

from decoding.cli.options import LOOKUP
from weights.config import read_context
from weights.errors import WeightsError
from weights.tokenizer import load_tokenizer, vocabulary_difference


@dataclass(frozen=True)
class Request:
    """What is to be continued."""

    text: str
    prompt: list[int]
    tokenizer: tiktoken.Encoding


def prepare(options: argparse.Namespace, text: str) -> Request:
    """Encode the text for the target.

    Raises ValueError if it is too long for the target, or the draft has another vocabulary.
    """
    tokenizer = load_tokenizer(options.target)
    if options.draft not in (None, LOOKUP):
        difference = vocabulary_difference(tokenizer, load_tokenizer(options.draft))
        if difference:
            raise WeightsError(f"{options.target} and {options.draft} have different vocabularies: "
                               f"{difference}; choose another --draft")
    prompt = encode(text, tokenizer, options.allow_special)
    n_ctx = read_context(options.target)
    if len(prompt) > n_ctx:
        raise ValueError(f"the prompt has {len(prompt)} tokens, but the target's context is "
                         f"{n_ctx}; shorten it")
    return Request(text, prompt, tokenizer)


def encode(text: str, tokenizer: tiktoken.Encoding, allow_special: bool) -> list[int]:
    """Return the ids of a prompt.

    Those of an empty one are <|endoftext|>, which GPT-2 was trained to start from.
    """
    if allow_special:
        ids = tokenizer.encode(text, allowed_special="all")
    else:
        ids = tokenizer.encode(text, disallowed_special=())
    return ids or [tokenizer.eot_token]
