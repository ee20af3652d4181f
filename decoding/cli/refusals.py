"""Which options do not go together, and why. Imports no torch."""
import argparse
from pathlib import Path

from decoding.cli.models import LOOKUP
from weights.output import check_writable
from weights.processes.start import launched


def refuse(options: argparse.Namespace) -> str | None:
    """Return why this combination of options is refused, if it is.

    Mostly because one of them would do nothing.
    """
    if options.prompt is not None and options.prompt_file is not None:
        return "give PROMPT or --prompt-file, not both"
    if options.at_once is not None and options.prompts_file is None:
        return "--at-once does nothing without --prompts-file"
    if options.prompts_file is not None and (refusal := refuse_for_batch(options)):
        return refusal
    if options.step and options.prompt_file == "-":
        return ("--step waits for Enter on stdin, and --prompt-file - reads the prompt from there; "
                "give a file")
    if options.json and options.color != "auto":
        return "--color does nothing with --json"
    if options.json and options.rejected:
        return "--rejected does nothing with --json, which streams no text"
    if options.quiet and (options.trace or options.step):
        return "--quiet would silence --trace and --step"
    if options.quiet and options.rejected:
        return "--quiet prints nothing but the text, which what --rejected shows is no part of"
    if options.quiet and options.mode == "compare" and not options.json:
        return "--quiet would silence the comparison; add --json, or choose another --mode"
    if options.rejected and options.stop:
        return "--rejected shows tokens as they come; with --stop some wait: leave out one of them"
    if options.compile and options.no_cache:
        return "--compile does nothing with --no-cache: what it replays are steps with a cache"
    if options.record is not None and not Path(options.record).absolute().parent.is_dir():
        return f"there is no folder for --record {options.record}; make it first"
    if options.record is not None and (refusal := unwritable(options.record)):
        return refusal
    if options.record is not None and options.max_new_tokens == 0:
        return "--record has nothing to record with --max-new-tokens 0"
    if options.record and options.prompt_file and is_same(options.record, options.prompt_file):
        return f"--record would overwrite the prompt, {options.prompt_file}; choose another file"
    if options.processes is not None and launched():
        return f"torchrun has started {launched()} processes already; leave out --processes"
    if options.temperature == 0:
        for name in ("seed", "top_k", "top_p", "coupling", "rule"):
            if getattr(options, name) is not None:
                return f"{flag(name)} does nothing in greedy mode; set a --temperature above 0"
    if options.rule is not None and options.coupling is not None:
        return ("--rule does nothing with --coupling: with shared noise a drafted token is the "
                "target's choice, or it is not")
    if options.rule == "block" and options.draft == LOOKUP:
        return (f"--rule block does nothing with --draft {LOOKUP}: for copied tokens, which are "
                "certain, both rules are the same")
    if options.tree is not None:
        for name, why in (("gamma", "its shape says how much is drafted"),
                          ("rule", "trees have a rule of their own"),
                          ("rejected", "--trace shows what became of its branches"),
                          ("compile", "a tree's passes are not recorded, they run plain")):
            said = getattr(options, name)
            if said is not None and said is not False:
                return f"{flag(name)} does nothing with --tree: {why}"
        if options.draft == LOOKUP:
            return f"--tree needs a draft model, which --draft {LOOKUP} is not"
    if options.mode == "baseline":
        for name in ("draft", "gamma", "rule", "tree", "trace", "step", "rejected", "record"):
            said = getattr(options, name)
            if said is not None and said is not False:  # 0 was said, and is refused
                return f"{flag(name)} does nothing in baseline mode, which has no draft"
        if options.color == "always":
            return "--color does nothing in baseline mode, where all tokens have the same origin"
    return None


def refuse_for_batch(options: argparse.Namespace) -> str | None:
    """Return what of the options does not go with --prompts-file, if anything does not."""
    if options.prompt is not None or options.prompt_file is not None:
        return "give one of PROMPT, --prompt-file and --prompts-file"
    if options.compile:
        return ("--compile replays passes over one text; --prompts-file reads several in a pass, "
                "and runs plain")
    if options.json:
        return "--json does nothing with --prompts-file, which always prints JSON"
    if options.mode == "compare":
        return ("--prompts-file runs one --mode; python -m decoding.bench.batches compares "
                "speculative and plain decoding of several texts")
    if options.gamma == "auto":
        return "--gamma auto follows the costs of one text; give --prompts-file a number"
    for name in ("no_cache", "coupling", "tree", "trace", "step", "rejected", "record"):
        if getattr(options, name):
            return f"{flag(name)} is for one text, not for --prompts-file"
    if options.color != "auto":
        return "--color does nothing with --prompts-file, which prints JSON"
    return None


def unwritable(name: str) -> str | None:
    """Return why this file cannot be written, if it cannot."""
    try:
        check_writable(Path(name))
    except ValueError as error:
        return str(error)
    return None


def is_same(one: str, other: str) -> bool:
    """Return whether these are names of one file that is there."""
    return Path(one).is_file() and Path(other).is_file() and Path(one).samefile(other)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
