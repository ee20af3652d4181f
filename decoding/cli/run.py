"""One call of `python -m decoding.generate`, from the checked options on: load, decode, report."""
import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from decoding.cli.console import Console, loading
from decoding.cli.prompt import Prompt
from decoding.cli.report import (
    advise,
    as_json,
    lossless,
    reason,
    speedup,
    table,
    traffic_line,
    traffic_of,
)
from decoding.cli.session import Session
from decoding.cli.streaming import LEGEND, REJECTED, TextStream
from decoding.compare import identity_line
from decoding.recording import write_recording
from decoding.result import Generation, Round
from weights.processes.group import Group


def run(options: argparse.Namespace, prompt: Prompt, group: Group | None = None) -> None:
    """Load, decode and report as the options say.

    group: the processes that the target is shared out among, if there are any.
    """
    console = Console(options)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: console.note(message)
        with loading(options):
            session = Session(options, prompt, group)
        introduce(session, console)
        runs = decode(session, console)
        try:
            if options.record is not None:
                write_recording(Path(options.record), prompt.ids, runs["speculative"],
                                session.settings(), prompt.tokenizer)
        finally:  # whether it could be written or not
            result = report(session, runs, console)
            if options.json:
                print(json.dumps(result, allow_nan=False))


def introduce(session: Session, console: Console) -> None:
    """Say what the reader should know before the text begins."""
    console.say(session.banner())
    if console.color:
        console.say(LEGEND + f"   {REJECTED}" * session.options.rejected)
    if session.prompt.text == "":
        tokens = b"".join(map(session.prompt.tokenizer.decode_single_token_bytes,
                              session.prompt.ids))
        console.say(f"the prompt is empty: starting from {tokens.decode()}")
    if session.prompt.text.endswith(" "):
        console.say("note: the prompt ends in a space, but these models have it at the beginning "
                    "of the next word; without it they know better how to go on")


def decode(session: Session, console: Console) -> dict[str, Generation]:
    """Run what is asked for. Return {"baseline": …, "speculative": …}, or one of them."""
    mode, n = session.options.mode, session.options.max_new_tokens
    if mode == "baseline":
        return {"baseline": stream(session, session.baseline(n), 0, console)}
    if mode == "compare":
        warm_up(session)
    speculative = stream(session, session.speculative(n), session.most_kept, console)
    if mode == "speculative":
        return {"speculative": speculative}
    rounds = console.counted(session.baseline(n), "baseline", n)
    return {"baseline": Generation(list(rounds), gamma=0), "speculative": speculative}


def warm_up(session: Session) -> None:
    """Run both loops for two rounds: the first calls of a process are slow, whichever loop's."""
    budget = min(session.options.max_new_tokens, session.most_kept + 2)
    for rounds in (session.baseline(budget), session.speculative(budget)):
        for _ in rounds:
            pass


def stream(session: Session, rounds: Iterator[Round], gamma: int, console: Console) -> Generation:
    """Run the rounds to their end, and write their text, and if asked the trace, as they come."""
    options, prompt = session.options, session.prompt
    done: list[Round] = []
    text = TextStream(console.out, prompt.tokenizer, prompt.tokenizer.silent, console.color,
                      console.wrap, options.rejected, session.stop)
    if console.out is not None:
        console.echo(prompt.text)
    for round in console.stepwise(rounds) if options.step else rounds:
        done.append(round)
        if options.trace:
            console.explain(len(done), round, prompt.tokenizer)
        text.write_round(round)
        if options.trace:
            text.end_line()
        console.mid_line = console.on_screen
    text.close()
    console.end_text()
    return Generation(done, gamma)


def report(session: Session, runs: dict[str, Generation], console: Console) -> dict:
    """Say what came of it. Return the object of --json."""
    console.say("\n" + table(runs))
    result: dict = {"prompt": session.prompt.text, "settings": session.settings()}
    result |= {title: as_json(session.text_of(run.tokens), run) for title, run in runs.items()}
    for title, traffic in session.traffic.items():
        result[title]["traffic"] = traffic_of(traffic, len(runs[title].rounds))
        console.say(traffic_line(title, result[title]["traffic"]))
    if len(runs) == 2:
        result |= compare(session, runs["baseline"], runs["speculative"], console)
    return result


def compare(session: Session, baseline: Generation, speculative: Generation,
            console: Console) -> dict:
    """Say what speculation gained, and if the two should be the same, whether they are."""
    console.say("\n" + reason(baseline, speculative, advise(session.options)))
    if not session.sampling.greedy:
        console.say(lossless(shared_noise=session.noise is not None))
    result: dict = {"speedup": speedup(baseline, speculative)}
    if session.loop_sampling.greedy:
        if baseline.tokens != speculative.tokens:
            console.say("the texts part: repeating the passes of both loops")
        difference = session.first_difference(baseline, speculative)
        console.say(identity_line(difference, session.show))
        result["identical"] = difference is None
        if difference is not None:
            result["first_difference"] = asdict(difference) | {"verdict": difference.verdict}
    return result
