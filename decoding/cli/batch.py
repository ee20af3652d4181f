"""`--prompts-file` from its lines on: load, continue several prompts at once, print JSON."""
import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial

from decoding.batched import batch_rounds
from decoding.cli.console import Console, loading
from decoding.cli.models import LOOKUP
from decoding.cli.prompts_file import BadLine, Line
from decoding.cli.report import as_json
from decoding.cli.session import Session
from decoding.drafters import Drafter, LookupDrafter
from decoding.result import Generation, Round
from model import Decoder
from weights.console import out_of_memory
from weights.processes.group import Group
from weights.terminal import tell


def run_batch(options: argparse.Namespace, lines: list[Line | BadLine],
              group: Group | None = None) -> int:
    """Continue the prompt of every good line. Return the exit code: 2 if there is a bad one.

    group: the processes that the target is shared out among, if there are any.
    """
    console = Console(options)
    good = [line for line in lines if isinstance(line, Line)]
    bad = [line for line in lines if isinstance(line, BadLine)]
    for line in bad:
        tell(f"{options.prompts_file}, line {line.number}: {line.reason}")
    answers = Answers(lines, visible=sys.stderr.isatty() and not options.quiet)
    if good:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: console.note(message)
            with loading(options):
                session = Session(options, good[0].prompt, group)
            console.say(f"{session.banner()}; {min(options.at_once, len(good))} texts at once")
            decode(session, good, answers)
    return 2 if bad else 0


def decode(session: Session, lines: list[Line], answers: "Answers") -> None:
    """Run to the end, and answer each line when its text has ended.

    When interrupted, answers what has ended so far. Raises MemoryError if memory runs out.
    """
    rounds: list[list[Round]] = [[] for _ in lines]
    try:
        for line in lines:
            if line.max_new_tokens == 0:  # it takes part in no pass
                answers.add(line, answer(session, line, []))
        for found in passes(session, lines):
            for index, round in found.items():
                rounds[index].append(round)
                if round.finish_reason is not None:
                    answers.add(lines[index], answer(session, lines[index], rounds[index]))
            answers.progress(sum(len(r.emitted) for r in found.values()))
    except KeyboardInterrupt:
        answers.print_all()
        done = f"{answers.printed} of {answers.total} lines are answered"
        raise KeyboardInterrupt(done) from None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        n = min(session.texts, len(lines))
        raise MemoryError(f"{n} texts at once, see --at-once") from error
    finally:
        answers.wipe()


def passes(session: Session, lines: list[Line]) -> Iterator[dict[int, Round]]:
    """Start the batched loop that the options ask for."""
    options = session.options
    return batch_rounds(
        session.model, draft_of(session), [line.prompt.ids for line in lines],
        [line.max_new_tokens for line in lines], gamma=options.gamma or 0,
        sampling=session.sampling, rule=session.rule, eos=session.eos, stop=session.stop,
        generators=[session.generator(line.seed) for line in lines], at_once=options.at_once,
        continuous=True)


def draft_of(session: Session) -> Decoder | Callable[[], Drafter] | None:
    """Return the draft as the batched loop takes it."""
    if session.options.draft == LOOKUP:
        return partial(LookupDrafter, session.model.config.n_vocab)
    assert session.draft is None or isinstance(session.draft, Decoder)  # nothing is wrapped here
    return session.draft


def answer(session: Session, line: Line, rounds: list[Round]) -> dict:
    """Return the object that is printed for a line."""
    run = Generation(rounds, session.options.gamma or 0)
    return {"line": line.number, "prompt": line.prompt.text,
            "max_new_tokens": line.max_new_tokens, "seed": line.seed,
            **as_json(session.text_of(run.tokens), run)}


class Answers:
    """A JSON object for each line, printed as soon as all before it are.

    visible: whether the progress is shown, on a line of the terminal.
    """

    def __init__(self, lines: list[Line | BadLine], visible: bool) -> None:
        self.waiting = [line.number for line in lines]
        self.ready = {line.number: {"line": line.number, "error": line.reason}
                      for line in lines if isinstance(line, BadLine)}
        self.total, self.printed, self.visible = len(lines), 0, visible
        self.tokens = 0
        self.print_next()

    def add(self, line: Line, answer: dict) -> None:
        self.ready[line.number] = answer
        self.print_next()

    def print_next(self) -> None:
        """Print what nothing before it is missing for."""
        while self.waiting and self.waiting[0] in self.ready:
            self.print(self.waiting[0])

    def print_all(self) -> None:
        """Print all there is, still in order."""
        for number in [number for number in self.waiting if number in self.ready]:
            self.print(number)

    def print(self, number: int) -> None:
        self.wipe()
        self.waiting.remove(number)
        self.printed += 1
        print(json.dumps(self.ready.pop(number), allow_nan=False), flush=True)

    def progress(self, new_tokens: int) -> None:
        """Show how far it has come."""
        self.tokens += new_tokens
        if self.visible:
            done = self.printed + len(self.ready)
            print(f"\r{done} of {self.total} lines, {self.tokens} tokens\033[K", end="",
                  file=sys.stderr, flush=True)

    def wipe(self) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
