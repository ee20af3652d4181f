"""`python -m decoding.evaluate`: is the text as good? Tasks by plain and speculative decoding.

Exit codes: 0 done; 1 a greedy speculative text is no text of the target (a fault), a file could not
be fetched, read or written, or memory ran out; 2 bad input; 130 interrupted.
"""
import argparse
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from weights.console import run_program
from weights.terminal import tell
from weights.threads import bind_threads

if TYPE_CHECKING:
    from decoding.quality.tasks import Question, Task

PROGRAM = "python -m decoding.evaluate"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: evaluate(argv))


def evaluate(argv: list[str] | None) -> int:
    """Read the options and the task, answer every problem by both loops, and print the table."""
    from decoding.quality.options import parse

    options = parse(argv)
    from decoding.quality.sandbox import Sandbox
    from decoding.quality.scores import scorer
    from decoding.quality.tasks import load_task
    from weights.output import claim

    task = load_task(options.task, options.metric, options.prompt_template)
    if options.run_generated_code and task.metric != "pass@1":
        raise ValueError(f"--run-generated-code does nothing for the metric {task.metric}")
    sandbox = Sandbox() if options.run_generated_code else None
    score = scorer(task.metric, sandbox)
    if options.max_new_tokens is None:
        options.max_new_tokens = task.max_new_tokens
    if options.stop is None:
        options.stop = task.stop or None
    questions = read_questions(options, task)
    tell(f"task {task.name}: {len(questions)} problems, scored by {task.metric}")
    if sandbox is not None:
        tell(sandbox.say())
    with ExitStack() as stack:
        if options.out is not None:
            stack.enter_context(claim(options.out))
        return run(options, task, questions, score)


def read_questions(options: argparse.Namespace, task: "Task") -> list["Question"]:
    """Return the problems that fit into the target's context, and say how many do not.

    Raises ValueError if none does, or the draft has another vocabulary.
    """
    from decoding.cli.prompt import as_prompt, shared_tokenizer
    from decoding.quality.tasks import Question
    from weights.config import read_context

    tokenizer, n_ctx = shared_tokenizer(options), read_context(options.target)
    questions, skipped = [], []
    for problem in task.problems[: options.limit]:
        prompt = as_prompt(problem.prompt, tokenizer, False, sys.maxsize)
        if len(prompt.ids) < n_ctx:
            questions.append(Question(problem, prompt))
        else:
            skipped.append(problem.name)
    if skipped:
        tell(f"{len(skipped)} of {len(skipped) + len(questions)} problems are skipped: their "
             f"prompts leave no room in the context of {n_ctx} tokens ({', '.join(skipped[:5])}"
             f"{', …' * (len(skipped) > 5)})")
    if not questions:
        raise ValueError(f"no problem of {task.name} fits into the target's context")
    return questions


def run(options: argparse.Namespace, task: "Task", questions: list["Question"], score) -> int:
    """Answer, and print the table. Return the exit code."""
    from decoding.cli.console import loading
    from decoding.quality.options import OWN
    from decoding.quality.rows import ROWS, Rows
    from weights.output import replacing

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: tell(f"note: {message}")
        with loading(options):
            bind_threads()
            from decoding.cli.session import Session  # and with it torch
            from decoding.quality.arms import answer_all, faults
            from decoding.quality.tables import table

            session = Session(options, questions[0].prompt)
        tell(session.banner())
        settings = {name: value for name, value in session.settings().items()
                    if name not in OWN and value is not None and value is not False}
        settings |= {"task": task.name, "metric": task.metric}
        rows = Rows(None if options.out is None else options.out / ROWS, settings)
        answers = answer_all(session, questions, options.samples, rows, settings, score)
    found = table(answers, session.sampling.greedy)
    print(found)
    if options.out is not None:
        with replacing(Path(options.out) / "table.md") as file:
            file.write_text(found + "\n", encoding="utf-8")
    if score is None:
        tell("not scored: pass@1 runs what the models wrote; add --run-generated-code"
             + " (the answers in --out are kept)" * (options.out is not None))
    bad = sum(1 for _ in faults(answers))
    if bad:
        tell(f"{PROGRAM}: {bad} greedy texts differ by more than rounding explains: a fault")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
