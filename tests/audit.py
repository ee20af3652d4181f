"""`python -m tests.audit`: which planted mistakes does the audit of greedy texts find?

A table of the bundled pair: prompts, planted mistakes and number formats through the audit that the
programs use, and honest runs beside them. Some minutes.

Exit codes: 0 every mistake that changed a text was found, and no honest run was taken for one; else
1.
"""
import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext

import torch

from decoding.bench.arms import Arm, NotLossless, Task
from decoding.bench.measure import Pair, near_tie
from decoding.gamma import DEFAULT_GAMMA
from tests.planted import MISTAKES
from weights import load_fast, load_tokenizer

PROMPTS = ("Once upon a time", "Once upon a time, there was a little girl", "A king had three sons",
           "The old woman", "The wolf said", "In a dark forest", "The princess was so",
           "“Who are you?” asked", "When the sun rose, the", "There was once a poor miller who had",
           "He took the golden ring and", "The fox ran to the")
DTYPES = ("float32", "bfloat16", "float16")
HONEST = "honest"


def main() -> int:
    """Print the table. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("--length", type=int, default=30, help="new tokens (default: %(default)s)")
    parser.add_argument("--layout", default="plain", help="(default: %(default)s)")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{len(PROMPTS)} prompts, {options.length} new tokens, layout {options.layout}\n\n"
          "| run | format | same text | near-tie | DIFFERENT | stopped |\n" + "|---" * 6 + "|")
    missed, changed, wolf = 0, 0, 0
    for dtype in options.dtypes:
        pair = load(dtype, options.layout)
        for name, plant in {HONEST: nullcontext, **MISTAKES}.items():
            found = Counter(verdicts(pair, plant, options.length))
            if name == HONEST:
                wolf += found["DIFFERENT"] + found["stopped"]
            else:
                missed += found["near-tie"]
                changed += found["near-tie"] + found["DIFFERENT"]
            print(f"| {name} | {dtype} | {found['same text']} | {found['near-tie']} "
                  f"| {found['DIFFERENT']} | {found['stopped']} |", flush=True)
    print(f"\n{changed} texts were changed by a mistake, {missed} of them only by what rounding "
          f"could explain; {wolf} honest texts are called DIFFERENT, or stop")
    return int(missed + wolf > 0)


def load(dtype: str, layout: str) -> Pair:
    target, draft = (load_fast(name, dtype=getattr(torch, dtype), layout=layout, tokens_per_pass=n)
                     for name, n in (("tales-large", DEFAULT_GAMMA + 1), ("tales-small", 2)))
    return Pair(target, draft, eos=None, seed=0, name=str)


def verdicts(pair: Pair, plant, length: int) -> Iterator[str]:
    """Yield what the audit says about the text of each prompt. plant: makes the mistake's context.

    A mistake that breaks the loop altogether stops it.
    """
    tokenizer, arm = load_tokenizer("tales-large"), Arm(DEFAULT_GAMMA)
    for text in PROMPTS:
        task = Task(text, tuple(tokenizer.encode(text)), length, temperature=0)
        expected = pair.run(Arm(0), task, 0).tokens
        try:
            with plant():
                found = pair.run(arm, task, 0)
            yield "same text" if near_tie(pair, arm, task, expected, found) is None else "near-tie"
        except NotLossless:
            yield "DIFFERENT"
        except ValueError:
            yield "stopped"


if __name__ == "__main__":
    sys.exit(main())
