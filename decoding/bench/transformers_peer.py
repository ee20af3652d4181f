"""The library transformers as a contestant: its own `generate`, stopped after every round."""
import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
from greenlet import getcurrent, greenlet

from decoding.bench.turns import Contestant, Rounds, Start

NAME = "transformers"


def version() -> str:
    return f"transformers {transformers.__version__}"


@contextmanager
def contestants(folders: tuple[Path, Path | None], prompt: list[int], dtype: str,
                scratch: Path, options: argparse.Namespace,
                ) -> Iterator[tuple[dict[Contestant, Start], list[int]]]:
    """Load target and draft; yield how each contestant starts a run, and no other processes."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    target = load(folders[0], dtype, options.device)
    draft = None if folders[1] is None else load(folders[1], dtype, options.device)
    ids = torch.tensor([prompt], device=options.device)

    def start(gamma: int) -> Start:
        def generate(streamer: Handover) -> None:
            assistant = {}
            if gamma > 0 and draft is not None:
                draft.generation_config.update(num_assistant_tokens=gamma,
                                               num_assistant_tokens_schedule="constant",
                                               assistant_confidence_threshold=0.0)
                assistant = {"assistant_model": draft}
            target.generate(ids, attention_mask=torch.ones_like(ids), streamer=streamer,
                            max_new_tokens=options.tokens, **assistant)
        return lambda: rounds(generate)

    gammas = [0, *options.gammas] if draft else [0]
    yield {Contestant(NAME, gamma): start(gamma) for gamma in gammas}, []


def load(folder: Path, dtype: str, device: str) -> Any:
    """Load a model, to decode greedily and never to stop early."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa")
    model = model.eval().to(device, getattr(torch, dtype))  # older versions call dtype torch_dtype
    model.generation_config.update(do_sample=False, eos_token_id=None, pad_token_id=0)
    return model


class Handover:
    """What `generate` gives its new tokens to, round by round; the prompt comes first.

    Each time, the greenlet that asked for a round goes on, and `generate` waits for the next.
    """

    def __init__(self, asker: greenlet) -> None:
        self.asker, self.prompt_seen = asker, False

    def put(self, ids: torch.Tensor) -> None:
        if self.prompt_seen:
            self.asker.switch(ids.flatten().tolist())
        self.prompt_seen = True

    def end(self) -> None:
        pass


def rounds(generate: Any) -> Rounds:
    """Run generate(streamer), and yield each round's seconds and new ids.

    A greenlet is a function that can be left in the middle. A thread could wait as well, but would
    have OpenMP threads of its own, which take cores from ours. `generate` turns gradients off until
    it ends; who asked for a round gets them back as they were.
    """
    inside = greenlet(lambda: generate(Handover(getcurrent().parent)))
    gradients = torch.is_grad_enabled()
    try:
        while True:
            started = perf_counter()
            ids = inside.switch()
            torch.set_grad_enabled(gradients)
            if inside.dead:
                return
            yield perf_counter() - started, ids
    finally:
        if not inside.dead:
            inside.throw()  # it was left in the middle, and ends here
        torch.set_grad_enabled(gradients)
