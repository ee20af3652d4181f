"""The prompts of --prompts-file: a JSON object on each line. Imports no torch."""
import argparse
import json
from dataclasses import dataclass

from decoding.cli.prompt import Prompt, as_prompt, shared_tokenizer
from weights.config import read_context
from weights.console import LARGEST_SEED
from weights.files import parse_json, read_bytes
from weights.vocabulary import Tokenizer

KEYS = ("prompt", "max_new_tokens", "seed")
LARGEST = 2**30  # bytes of a file


@dataclass(frozen=True)
class Line:
    """What one line asks for.

    seed: of its text alone: its own, or --seed and the number of lines above it; None if greedy.
    """

    number: int  # in the file, from 1
    prompt: Prompt
    max_new_tokens: int
    seed: int | None


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be served, and why."""

    number: int
    reason: str


def read_lines(options: argparse.Namespace) -> list[Line | BadLine]:
    """Read the prompts; empty lines are skipped.

    Raises ValueError if the file cannot be read or has no prompt, or if the draft has another
    vocabulary than the target.
    """
    name = options.prompts_file
    contents = read_bytes(name, f"the prompts file {name}", LARGEST, "so it is no list of prompts")
    contents = contents.removeprefix(b"\xef\xbb\xbf")  # the mark of some editors
    tokenizer, n_ctx = shared_tokenizer(options), read_context(options.target)
    lines: list[Line | BadLine] = []
    for number, line in enumerate(contents.split(b"\n"), start=1):
        if line.strip():
            try:
                lines.append(read_line(number, line, options, tokenizer, n_ctx))
            except ValueError as error:
                lines.append(BadLine(number, str(error)))
    if not lines:
        raise ValueError(f'the prompts file {name} has no prompt; give it a line like '
                         '{"prompt": "Once upon a time"}')
    return lines


def read_line(number: int, line: bytes, options: argparse.Namespace,
              tokenizer: Tokenizer, n_ctx: int) -> Line:
    """Return what a line asks for. Raises ValueError if it cannot be served."""
    entry = {"max_new_tokens": options.max_new_tokens, "seed": None} | parse(line)
    if not isinstance(entry["prompt"], str):
        raise ValueError("the prompt is not a text")
    if entry["prompt"] == "":
        raise ValueError("the prompt is empty")
    seed = entry["seed"]
    if seed is not None and options.temperature == 0:
        raise ValueError("seed does nothing in greedy mode")
    if seed is None and options.seed is not None:
        seed = (options.seed + number - 1) % (LARGEST_SEED + 1)
    if seed is not None:
        check_whole("seed", seed, LARGEST_SEED)
    check_whole("max_new_tokens", entry["max_new_tokens"])
    prompt = as_prompt(entry["prompt"], tokenizer, options.allow_special, n_ctx)
    return Line(number, prompt, entry["max_new_tokens"], seed)


def parse(line: bytes) -> dict:
    """Return the JSON object on a line. Raises ValueError for anything else."""
    try:
        entry = parse_json(line.decode("utf-8"))
        json.dumps(entry, ensure_ascii=False).encode("utf-8")  # halves of characters fail here
    except UnicodeError as error:
        raise ValueError("it is not UTF-8") from error
    except ValueError as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(entry, dict) or "prompt" not in entry:
        raise ValueError('it is not an object with a "prompt"')
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(KEYS)}")
    return entry


def check_whole(name: str, value: object, most: float = float("inf")) -> None:
    """Raise ValueError unless the value is a whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        limits = "of at least 0" if most == float("inf") else f"from 0 to {most}"
        raise ValueError(f"{name} must be a whole number {limits}, not {value!r:.40}")
