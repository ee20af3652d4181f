"""The command line of `python -m decoding.evaluate`. Imports no torch.

What concerns models and loops is read, filled in and refused by the options of
`python -m decoding.generate`.
"""
import argparse
import math
from pathlib import Path

from decoding.cli import options as of_generate
from decoding.cli.refusals import refuse
from decoding.quality.tasks import METRICS
from decoding.shapes import TREE_FORM, tree
from weights.console import LARGEST_SEED, FileParser, add_machine_options, real, whole
from weights.registry import DEFAULT_TARGET

PROGRAM = "python -m decoding.evaluate"
TALES = Path(__file__).with_name("tales.jsonl")
OWN = ("stand_in", "task", "metric", "prompt_template", "samples", "limit", "out",
       "run_generated_code")


def make_parser() -> FileParser:
    parser = FileParser(
        prog=PROGRAM, allow_abbrev=False,
        description="Answer the problems of a task by plain and by speculative decoding, score "
                    "both, and say what their difference is worth. @FILE reads options from a "
                    "file, as those in decoding/experiments.")
    add = parser.add_argument
    add("--task", metavar="NAME", required=True,
        help="humaneval, xsum, or a file FILE.jsonl of problems (see decoding/quality/tasks.py)")
    add("--metric", metavar="NAME",
        help=f"of the answers to a file's problems: {', '.join(METRICS)}")
    add("--prompt-template", metavar="TEXT", type=of_generate.unescape,
        help=r"of XSum's prompts; {document} is the article (default: {document}\nTL;DR:)")
    add("--limit", metavar="N", type=whole(1), help="take the first N problems (default: all)")
    add("--samples", metavar="N", type=whole(1), default=1,
        help="answers to each problem (default: 1)")
    add("--run-generated-code", action="store_true",
        help="score pass@1: run the answers, in a process without network, home and rights where "
             "the system has namespaces; without this they are only written down")
    add("--out", metavar="DIR", type=Path,
        help="the folder for answers.jsonl and table.md; what it has already is not made again "
             "(default: write no files)")
    add("--target", metavar="NAME", default=DEFAULT_TARGET,
        help="the model whose text is wanted (default: %(default)s)")
    add("--draft", metavar="NAME",
        help="the model that proposes tokens, or lookup (default: the target's usual partner)")
    add("--gamma", metavar="N", type=of_generate.gamma,
        help="tokens drafted per round, or auto (default: 4)")
    add("--tree", metavar="SHAPE", type=tree, help=f"draft trees: {TREE_FORM}")
    add("--rule", choices=["token", "block"], help="how drafted tokens are judged")
    add("--max-new-tokens", metavar="N", type=whole(1),
        help="of an answer (default: the task's; 128 for a file)")
    add("--stop", metavar="TEXT", action="append", type=of_generate.stop_string,
        help="end an answer where TEXT begins (default: the task's strings; none for a file)")
    add("--temperature", metavar="T", default=0.0,
        type=real(0, math.inf, "a finite number of at least 0", True),
        help="0 is greedy (default: 0)")
    add("--top-k", metavar="K", type=whole(1), help="sample from the K most likely tokens only")
    add("--top-p", metavar="P", type=real(0, 1, "above 0 and at most 1", False),
        help="sample from the smallest set of most likely tokens whose mass reaches P")
    add("--seed", metavar="N", type=whole(0, LARGEST_SEED),
        help="of sampled answers (default: 0)")
    add("--stand-in", action="store_true",
        help="try the same with small random models of the same families, 2 problems and 8 tokens, "
             "for xsum with tales: their numbers say nothing")
    add_machine_options(parser)
    return parser


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options: this program's, and every one of generate's with its value.

    What makes no sense ends the program with one line and code 2.
    """
    parser = make_parser()
    given = parser.parse_args(argv)
    options = of_generate.make_parser().parse_args(["--mode", "compare"])
    vars(options).update(vars(given))
    if given.temperature == 0 and given.samples > 1:
        parser.error("--samples does nothing in greedy mode, whose answers are all the same; set "
                     "a --temperature above 0")
    if refusal := refuse(options):
        parser.error(refusal)
    if given.temperature > 0 and given.seed is None:
        options.seed = 0
    of_generate.fill_in(options, parser)
    if given.stand_in:
        from decoding.bench.stand_in import stand_in  # torch, which nothing else here needs

        if options.out is None:
            parser.error("--stand-in writes its models beside --out; name a folder")
        stand_in(options)
        options.limit, options.max_new_tokens = 2, 8
        if options.task == "xsum":  # which lies on the hub
            options.task, options.metric = str(TALES), "rouge"
    return options
