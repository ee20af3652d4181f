"""One call of `python -m decoding.generate`, from the checked options on: load, decode, report."""
import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict

import torch

from decoding.baseline import autoregressive_rounds
from decoding.cli.console import Console
from decoding.cli.options import LOOKUP
from decoding.cli.report import as_json, lossless, reason, speedup, table
from decoding.cli.request import Request
from decoding.cli.streaming import LEGEND, TextStream
from decoding.cli.trace import describe
from decoding.compare import first_difference, identity_line
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters import LookupDrafter
from decoding.feed import Model, Uncached
from decoding.gamma import AdaptiveGamma, Gamma, most
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, Sampling
from decoding.speculative import speculative_rounds, usual_rule
from model import GPT2
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import layout_name
from weights import load_fast
from weights.console import pick_device
from weights.tokenizer import show_token


class Session:
    """The models, the prompt and the settings of one call.

    Raises ValueError for what turns out to make no sense.
    """

    def __init__(self, options: argparse.Namespace, request: Request) -> None:
        self.options = options
        self.device = pick_device(options.device)
        if options.compile:
            check_graphs(self.device)
        self.text, self.prompt, self.tokenizer = request.text, request.prompt, request.tokenizer
        self.end_of_text = self.tokenizer.eot_token
        tokens_per_pass = 1 if options.gamma is None else most(self.gamma()) + 1
        self.model = self.load(options.target, tokens_per_pass)
        self.sampling = Sampling(options.temperature, options.top_k, options.top_p)
        self.noise = SharedNoise(self.generator()) if options.coupling == "gumbel" else None
        if options.draft == LOOKUP:
            self.draft = LookupDrafter(self.model.config.n_vocab)
        elif options.draft is not None:
            # It catches up with two tokens after full acceptance.
            self.draft = self.ready(self.load(options.draft, 2), 2)
        self.target = self.ready(self.model, tokens_per_pass)

    def load(self, name: str, tokens_per_pass: int) -> GPT2:
        dtype = getattr(torch, self.options.dtype)
        return load_fast(name, self.device, dtype, self.options.linear, tokens_per_pass)

    def ready(self, model: GPT2, tokens_per_pass: int) -> Model:
        """The model as the loops shall run it, and feed it up to so many tokens again and again."""
        if self.options.compile:
            return self.coupled(Graphed(model, (1, tokens_per_pass)))
        return self.coupled(Uncached(model) if self.options.no_cache else model)

    def coupled(self, model: Model) -> Model:
        """The model, with the noise that the two models share if there is any."""
        return model if self.noise is None else Coupled(model, self.sampling, self.noise)

    def gamma(self) -> int | Gamma:
        """A number, or a new object that chooses for one run."""
        return AdaptiveGamma() if self.options.gamma == "auto" else self.options.gamma

    def generator(self) -> torch.Generator | None:
        """A new generator of the run's seed; a greedy run has none."""
        return None if self.options.seed is None else torch.Generator(self.device).manual_seed(self.options.seed)

    def loop_sampling(self) -> Sampling:
        """How the loops choose: with shared noise they take the best of logits that carry it."""
        return self.sampling if self.noise is None else GREEDY

    def request(self) -> dict:
        """What both loops are given: the same settings, and a generator of the same seed each."""
        return {"sampling": self.loop_sampling(), "generator": self.generator(),
                "eos": None if self.options.ignore_eos else self.end_of_text}

    def baseline(self, max_new_tokens: int) -> Iterator[Round]:
        return autoregressive_rounds(self.target, self.prompt, max_new_tokens, **self.request())

    def speculative(self, max_new_tokens: int) -> Iterator[Round]:
        return speculative_rounds(self.target, self.draft, self.prompt, max_new_tokens, gamma=self.gamma(),
                                  rule=usual_rule(self.loop_sampling()), trace=self.options.trace, **self.request())

    def settings(self) -> dict:
        """Every option's value, and what `auto` and the defaults came to."""
        settings = {key: value for key, value in vars(self.options).items() if key not in ("prompt", "list_models")}
        return settings | {"device": self.device, "linear": layout_name(self.model),
                           "threads": torch.get_num_threads()}

    def decode(self, ids: list[int]) -> str:
        """The text of new ids, without end-of-text; half a character at the end is U+FFFD."""
        return self.tokenizer.decode([token for token in ids if token != self.end_of_text], errors="replace")

    def name(self, token: int) -> str:
        return show_token(token, self.tokenizer)


def check_graphs(device: str) -> None:
    """Raise ValueError for a device that has no CUDA graphs.

    On a CPU the compiler was tried instead: it gained nothing.
    """
    if device != "cuda":
        raise ValueError(f"--compile replays CUDA graphs, and this runs on {device}; leave it out")


def run(options: argparse.Namespace, request: Request) -> None:
    """Load, decode and report as the options say."""
    console = Console(options)
    with warnings.catch_warnings():
        warnings.showwarning = console.note
        session = Session(options, request)
        introduce(session, console)
        report(session, *decode(session, console), console)


def introduce(session: Session, console: Console) -> None:
    """What the reader should know before the text begins."""
    console.say(banner(session))
    if console.color:
        console.say(LEGEND)
    if session.text == "":
        console.say("the prompt is empty: starting from <|endoftext|>")


def decode(session: Session, console: Console) -> tuple[Generation | None, Generation | None]:
    """The plain and the speculative run, as far as they are asked for."""
    options = session.options
    baseline = speculative = None
    if options.mode == "baseline":
        baseline = stream(session, session.baseline(options.max_new_tokens), 0, console)
    else:
        if options.mode == "compare":
            warm_up(session)
        speculative = stream(session, session.speculative(options.max_new_tokens), most(session.gamma()), console)
    if options.mode == "compare":
        rounds = console.counted(session.baseline(options.max_new_tokens), "baseline", options.max_new_tokens)
        baseline = Generation(list(rounds), gamma=0)
    return baseline, speculative


def warm_up(session: Session) -> None:
    """Run both loops for two rounds: the first calls of a process are slow, and neither loop shall pay for it."""
    budget = min(session.options.max_new_tokens, most(session.gamma()) + 2)
    for rounds in (session.baseline(budget), session.speculative(budget)):
        for _ in rounds:
            pass


def stream(session: Session, rounds: Iterator[Round], gamma: int, console: Console) -> Generation:
    """Run the rounds to their end, and write their text, and if asked for the trace, as they come."""
    options, done = session.options, []
    text = TextStream(console.out, session.tokenizer, session.end_of_text, console.color,
                      console.wrap)
    if console.out is not None:
        console.echo(session.text)
    for round in console.stepwise(rounds) if options.step else rounds:
        done.append(round)
        if options.trace:
            console.say(describe(len(done), round, session.tokenizer))
        text.write_round(round)
        console.mid_line = console.on_screen
    text.close()
    console.end_text()
    return Generation(done, gamma)


def report(session: Session, baseline: Generation | None, speculative: Generation | None, console: Console) -> None:
    """The table on stderr and, if asked for, the JSON object on stdout; in a greedy comparison also whether ids agree."""
    runs = {"baseline": baseline, "speculative": speculative}
    runs = {title: run for title, run in runs.items() if run is not None}
    console.say("\n" + table(runs))
    if len(runs) == 2:
        console.say("\n" + reason(*runs.values()))
        if not session.sampling.greedy:
            console.say(lossless(shared_noise=session.noise is not None))
    result = {"prompt": session.text, "settings": session.settings()}
    result |= {title: as_json(session.decode(run.tokens), run) for title, run in runs.items()}
    if len(runs) == 2:
        result["speedup"] = speedup(baseline, speculative)
        if session.loop_sampling().greedy:
            difference = first_difference(session.coupled(session.model), session.prompt,
                                          baseline.tokens, speculative.tokens)
            console.say(identity_line(difference, session.name))
            result["identical"] = difference is None
            if difference is not None:
                result["first_difference"] = asdict(difference) | {"verdict": difference.verdict}
    if session.options.json:
        print(json.dumps(result, allow_nan=False))


def banner(session: Session) -> str:
    """One line: which models, where, and how the next token is chosen."""
    options, sampling = session.options, session.sampling
    how = "greedy"
    if not sampling.greedy:
        filters = "".join(f", {label} {value}" for label, value in (("top-k", sampling.top_k), ("top-p", sampling.top_p)) if value)
        how = f"temperature {sampling.temperature:g}{filters}, seed {options.seed}"
        how += ", shared Gumbel noise" if session.noise is not None else ""
    draft = f", draft {options.draft}, gamma {options.gamma}" if options.draft is not None else ""
    return (f"target {options.target}{draft}, {how}; {options.dtype} on {session.device}, "
            f"{torch.get_num_threads()} threads, linear layers: {layout_name(session.model)}"
            + (", CUDA graphs" if options.compile else ""))
