"""`python -m decoding.animation`: draw README's moving picture from a run of the bundled pair.

Exit codes: 0 done; 1 the disk did not take the file, or memory ran out; 2 bad input, with one line
that says what; 130 interrupted.
"""
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from weights.console import OneLineParser, run_program
from weights.output import check_writable, write_text

if TYPE_CHECKING:
    from decoding.result import Generation

PROGRAM = "python -m decoding.animation"
# The seed was chosen by hand, for a story with a bit of everything, and 3.2 tokens per pass.
PROMPT, SEED, ROUNDS = "Once upon a time", 234, 6


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: draw(argv))


def draw(argv: list[str] | None) -> None:
    """Write the picture that README shows."""
    parser = OneLineParser(prog=PROGRAM, description=draw.__doc__)
    parser.add_argument("--out", type=Path, default=Path("tutorials/run.svg"),
                        help="the file (default: %(default)s)")
    out = parser.parse_args(argv).out
    check_writable(out)
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.moving_picture import animate
    from weights import load_tokenizer

    write_text(out, animate(recorded(), PROMPT, load_tokenizer("tales-large")))


def recorded() -> "Generation":
    """Return the run that README shows: the bundled pair, a few rounds."""
    from itertools import islice

    import torch

    from decoding.result import Generation
    from decoding.sampling import Sampling
    from decoding.speculative import speculative_rounds, usual_rule
    from weights import load_model, load_tokenizer

    target, draft = load_model("tales-large"), load_model("tales-small")
    sampling = Sampling(temperature=0.8)
    rounds = speculative_rounds(target, draft, load_tokenizer("tales-large").encode(PROMPT), 100,
                                gamma=4, rule=usual_rule(sampling), sampling=sampling,
                                generator=torch.Generator().manual_seed(SEED))
    return Generation(list(islice(rounds, ROUNDS)), 4)


if __name__ == "__main__":
    sys.exit(main())
