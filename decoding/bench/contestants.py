"""Our side of a comparison with another library: loading, and decoding round by round."""
import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import torch

from decoding.acceptance import accept_greedy
from decoding.baseline import autoregressive_rounds
from decoding.bench.turns import Contestant, Rounds, Start
from decoding.result import Round
from decoding.sampling import GREEDY
from decoding.speculative import speculative_rounds
from model import Decoder
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import layout_name
from weights import load_fast
from weights.terminal import tell

Ours = Decoder | Graphed


def load_ours(folder: Path, dtype: torch.dtype, tokens_per_pass: int,
              options: argparse.Namespace) -> Decoder:
    """Load a model laid out for passes of one size, and say on stderr which layout that is."""
    model = load_fast(folder, options.device, dtype, options.layout, tokens_per_pass)
    tell(f"  {folder.name}, read {tokens_per_pass} tokens at once: {layout_name(model)}")
    return model


def ready(model: Decoder, pass_sizes: tuple[int, ...], options: argparse.Namespace) -> Ours:
    """Return the model as it decodes: with --compile as CUDA graphs of these sizes of pass.

    Every contestant asks for its own, since graphs have a single cache.
    """
    return Graphed(model, pass_sizes) if options.compile else model


def our_contestants(folders: tuple[Path, Path | None], prompt: list[int], dtype: torch.dtype,
                    options: argparse.Namespace) -> dict[Contestant, Start]:
    """Load target and draft, and return how each contestant starts a run.

    On a CPU the target is loaded twice, since the best layout for one token is not the best for
    verifying.
    """
    target, draft = folders
    most = max(options.gammas) + 1 if draft else 1  # tokens in one pass of the target
    twice = options.device == "cpu" and options.layout == "auto" and most > 1
    verifier = load_ours(target, dtype, most, options)
    plain = load_ours(target, dtype, 1, options) if twice else verifier
    starts: dict[Contestant, Start] = {Contestant("ours", 0): timed(
        partial(autoregressive_rounds, ready(plain, (1,), options), prompt, options.tokens))}
    if draft:
        small = load_ours(draft, dtype, 2, options)
        for gamma in options.gammas:
            starts[Contestant("ours", gamma)] = timed(partial(
                speculative_rounds, ready(verifier, (1, gamma + 1), options),
                ready(small, (1, 2), options), prompt, options.tokens, gamma=gamma,
                rule=accept_greedy, sampling=GREEDY))
    return starts


def timed(begin: Callable[[], Iterator[Round]]) -> Start:
    """Return a start that times each round of a run of ours."""
    def start() -> Rounds:
        run = begin()
        while True:
            started = perf_counter()
            round = next(run, None)
            if round is None:
                return
            yield perf_counter() - started, round.emitted
    return start
