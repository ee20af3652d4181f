"""`python -m weights.train`: make a target and its draft from a text.

The target learns to predict the text. The draft learns to predict the target, because what counts
in speculative decoding is how much their distributions overlap, sum(min(p, q)), and not how good
the draft is by itself.

Exit codes: 0 done; 1 the disk did not take a file, or memory ran out; 2 bad input, with one line
that says what; 130 interrupted.
"""
import argparse
import sys
from pathlib import Path

from weights.console import (
    LARGEST_SEED,
    OneLineParser,
    real,
    run_program,
    whole,
)
from weights.files import check_path
from weights.output import LOCK, claim
from weights.threads import bind_threads

PROGRAM = "python -m weights.train"
CHECKPOINT = "checkpoint.pt"  # in the out folder, until the run is done
DEFAULT_MINUTES = 10.0
MINUTES = 0.001, 10_000_000  # hardly a step; twenty years
SMALLER = "a smaller --batch, --context or --target"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: train(parse(argv)), smaller=SMALLER)


def train(options: argparse.Namespace) -> None:
    """Refuse what makes no sense, then train both models into the folder options.out."""
    from weights.training.corpus import prepare

    checkpoint = options.out / CHECKPOINT
    if options.resume and not checkpoint.is_file():
        raise ValueError(f"there is nothing to resume: {checkpoint} does not exist")
    check_path(options.out.absolute())
    with claim(options.out):
        check_empty(options.out, options.resume)
        try:
            corpus = prepare(options.text, options.held_out, options.vocab, options.context)
            bind_threads()
            from weights.training.pair import train_pair

            train_pair(options, corpus, checkpoint)
        except KeyboardInterrupt:
            if not checkpoint.is_file():
                raise
            raise KeyboardInterrupt("the same command with --resume goes on") from None


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the options, checked.

    What makes no sense ends the program with one line and code 2.
    """
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from weights.training.corpus import LARGEST_VOCABULARY, SMALLEST_VOCABULARY

    parser = OneLineParser(prog=PROGRAM, allow_abbrev=False,
                           description="Make a target and its draft from a text.")
    add = parser.add_argument
    add("text", metavar="TEXT", type=Path,
        help="what to train on: a UTF-8 file; <|endoftext|> separates documents in it")
    add("--out", metavar="DIR", type=Path, required=True,
        help="a new folder: the target goes to DIR/large, its draft to DIR/small")
    add("--target", metavar="L,H,W", type=sizes, default="12,8,256",
        help="its layers, heads, width (default: %(default)s)")
    add("--draft", metavar="L,H,W", type=sizes, default="2,8,256",
        help="its layers, heads, width (default: %(default)s)")
    add("--vocab", metavar="N", type=whole(SMALLEST_VOCABULARY, LARGEST_VOCABULARY), default=4096,
        help="tokens in the vocabulary; fewer, if the text uses fewer (default: %(default)s)")
    add("--context", metavar="N", type=whole(1), default=256,
        help="the most tokens the models can read at once (default: %(default)s)")
    add("--minutes", metavar="M", type=real(*MINUTES, "from {} to {}".format(*MINUTES), True),
        help="time to train, 60 %% for the target, 40 %% for the draft "
             f"(default: {DEFAULT_MINUTES:g})")
    add("--steps", metavar="N", type=whole(1),
        help="train each model for N steps, instead of --minutes")
    add("--batch", metavar="N", type=whole(1), default=8,
        help="blocks of --context tokens in a step (default: %(default)s)")
    add("--dropout", metavar="P", type=real(0, 0.9, "from 0 to 0.9", True), default=0.0,
        help="of the target, against learning by heart a text that is seen many times "
             "(default: %(default)g)")
    add("--held-out", metavar="FILE", type=Path,
        help="a text to measure on (default: the last 5 %% of TEXT, its documents shuffled)")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED), default=0,
        help="of all randomness; with another number of threads, or on another machine, the "
             "weights need not be the same (default: %(default)s)")
    add("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto",
        help="where to train (default: %(default)s)")
    add("--resume", action="store_true", help="go on where the same command was interrupted")
    options = parser.parse_args(argv)
    if options.minutes is not None and options.steps is not None:
        parser.error("give --minutes or --steps, not both")
    if options.minutes is None and options.steps is None:
        options.minutes = DEFAULT_MINUTES
    return options


def sizes(text: str) -> tuple[int, int, int]:
    """Return layers, heads and width; an argparse type."""
    try:
        n_layer, n_head, n_embd = map(int, text.split(","))
    except ValueError:
        n_layer = n_head = n_embd = 0
    if min(n_layer, n_head, n_embd) < 1:
        raise argparse.ArgumentTypeError("must be layers,heads,width, as in 12,8,256, "
                                         f"not {text!r}")
    if n_embd % n_head:
        raise argparse.ArgumentTypeError(f"the width {n_embd} is not divisible by {n_head} heads")
    return n_layer, n_head, n_embd


def check_empty(folder: Path, resume: bool) -> None:
    """Raise ValueError unless the folder is empty, or holds a run to go on with."""
    content = next((path for path in folder.iterdir() if path.name != LOCK), None)
    if content is not None and not resume:
        begun = (folder / CHECKPOINT).is_file()
        hint = "--resume goes on with that run" if begun else "name a new folder"
        raise ValueError(f"{folder} is not empty, it holds {content.name}; {hint}")


if __name__ == "__main__":
    sys.exit(main())
