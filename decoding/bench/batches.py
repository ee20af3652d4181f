"""Does speculation pay for several texts at once, and up to how many?

    python -m decoding.bench.batches > batches.md

For each B three texts per place are continued by the same number of tokens: by the plain loop, by
the speculative one, and by that with every free place taken by the next prompt (refilled). The arms
take turns, whole runs are timed, prompts included, and medians count. Beside them stands what one
pass costs: T(B) of the target over one token of each text, T(B(gamma + 1)) when it verifies, and
D(B) of the draft. Greedy ids are compared with those of each text alone.

Exit codes: 0 done; 1 greedy ids differ, a file could not be fetched, or memory ran out; 2 bad
input; 130 interrupted.
"""
import argparse
import math
import sys

from decoding.bench.arms import NotLossless
from decoding.bench.prompts import default_prompts
from decoding.gamma import DEFAULT_GAMMA
from weights.config import read_context
from weights.console import OneLineParser, add_machine_options, real, run_program, whole
from weights.errors import DownloadError
from weights.registry import DEFAULT_TARGET, DRAFT_OF, resolve
from weights.threads import bind_threads

PROGRAM = "python -m decoding.bench.batches"
TEXTS_PER_PLACE = 3


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: measure(argv), failures=(DownloadError, NotLossless),
                       smaller="fewer texts, --batches, a smaller model or --dtype bfloat16")


def measure(argv: list[str] | None) -> None:
    """Read the options, refuse what makes no sense, then measure."""
    options = parse(argv)
    prompts = make_prompts(options)
    bind_threads()
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from decoding.bench.batch_table import print_table

    print_table(options, prompts)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options, every default filled in. Raises ValueError for no model."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__, allow_abbrev=False,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", metavar="NAME", default=DEFAULT_TARGET,
        help="the model whose text is wanted (default: %(default)s)")
    add("--draft", metavar="NAME",
        help="the model that proposes tokens (default: the target's usual partner)")
    add("--gamma", metavar="N", type=whole(1), default=DEFAULT_GAMMA,
        help="tokens drafted per round (default: %(default)s)")
    add("--batches", metavar="B", type=whole(1), nargs="+", default=[1, 2, 4, 8, 16],
        help="texts at once (default: 1 2 4 8 16)")
    add("--tokens", metavar="N", type=whole(1), default=64,
        help="new tokens of each text (default: %(default)s)")
    add("--temperature", metavar="T", default=0.0,
        type=real(0, math.inf, "a finite number of at least 0", True),
        help="0 is greedy (default: 0)")
    add("--repeats", metavar="N", type=whole(1), default=3,
        help="runs of each arm, of which the median counts (default: %(default)s)")
    add_machine_options(parser)
    options = parser.parse_args(argv)
    options.batches = sorted(set(options.batches))
    resolve(options.target)
    if options.draft is None:
        if options.target not in DRAFT_OF:
            raise ValueError(f"no draft is known for {options.target}; name one with --draft")
        options.draft = DRAFT_OF[options.target]
    return options


def make_prompts(options: argparse.Namespace) -> list[list[int]]:
    """Return a prompt for every text of the largest batch.

    They are the benchmark's in turn, again and again, each time without a token more at their end.
    Raises ValueError if a text does not fit into a context.
    """
    from decoding.bench.options import encode  # brings the tokenizer: Ctrl-C is caught by now

    texts = list(encode(options.target, options.draft, default_prompts(options.target)).values())
    n = TEXTS_PER_PLACE * options.batches[-1]
    prompts = [ids[:max(1, len(ids) - i // len(texts))]
               for i, ids in ((i, texts[i % len(texts)]) for i in range(n))]
    n_ctx, longest = read_context(options.target), max(map(len, prompts))
    n_ctx = min(n_ctx, read_context(options.draft))
    for option, new in (("--tokens", options.tokens), ("--gamma", options.gamma + 1)):
        if longest + new > n_ctx:
            raise ValueError(f"{option} {new - (option == '--gamma')} does not fit: a prompt has "
                             f"{longest} tokens, and the context {n_ctx}")
    return prompts


if __name__ == "__main__":
    sys.exit(main())
