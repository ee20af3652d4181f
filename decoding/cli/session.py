"""The models and settings of one call of `python -m decoding.generate`, ready for both loops."""
import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import cast

import torch

from decoding.acceptance import accept_block
from decoding.baseline import autoregressive_rounds
from decoding.cli.models import LOOKUP
from decoding.cli.prompt import Prompt
from decoding.compare import Difference, first_difference
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters import Drafter, LookupDrafter
from decoding.drafters.tree import tree_drafter
from decoding.feed import Model, TreeModel, Uncached
from decoding.gamma import AdaptiveGamma, Gamma, most
from decoding.random import new_generator
from decoding.result import Generation, Round
from decoding.sampling import GREEDY, Sampling
from decoding.shapes import shape
from decoding.speculative import Rule, speculative_rounds, usual_rule
from decoding.stop import Stop, text_of
from decoding.stopping import Eos
from decoding.tree import tree_rounds
from model import Decoder
from model.fast.cuda_graphs import Graphed
from model.fast.layouts import head_name, layout_name
from model.leader import Leader
from weights import WeightsError, load_fast
from weights.console import pick_device
from weights.fast import dtype_name, pick_dtype
from weights.processes.graphs import LedGraphs
from weights.processes.group import Group
from weights.processes.load import load_leader
from weights.threads import describe_threads
from weights.tokenizer import show_token


class Session:
    """Both models, loaded, and how the loops are to run them.

    sampling: how tokens are chosen, as the options say.
    loop_sampling: the same for the loops: with shared noise the best of logits that carry it.
    group: the processes that the target is shared out among, if there are any.
    traffic: how often they spoke to each other in each run.
    Raises ValueError for what turns out to make no sense.
    """

    def __init__(self, options: argparse.Namespace, prompt: Prompt,
                 group: Group | None = None) -> None:
        self.options, self.prompt, self.group = options, prompt, group
        self.traffic: dict[str, dict[str, int]] = {}
        self.device = pick_device(options.device)
        if options.compile:
            check_graphs(self.device)
        self.dtype = pick_dtype(options.dtype, options.target, self.device)
        self.sampling = Sampling(options.temperature, options.top_k, options.top_p)
        self.noise = SharedNoise(self.generator()) if options.coupling == "gumbel" else None
        self.loop_sampling = self.sampling if self.noise is None else GREEDY
        self.texts = options.at_once or 1  # in a pass
        self.shape = None if options.tree is None else shape(options.tree)
        tokens_per_pass = self.texts * (
            1 if options.mode == "baseline" else
            most(self.gamma()) + 1 if self.shape is None else self.shape.nodes + 1)
        self.model = self.load("target", options.target, tokens_per_pass)
        self.draft = None if options.draft is None else self.make_draft(options.draft)
        self.target = self.ready(self.model, tokens_per_pass)

    def load(self, role: str, name: str, tokens_per_pass: int) -> Decoder:
        how = (name, self.device, self.dtype, self.options.layout, tokens_per_pass)
        try:
            if self.group is not None and role == "target":
                return load_leader(self.group, *how)
            return load_fast(*how)
        except WeightsError as error:
            raise WeightsError(f"the {role}: {error}") from error

    def make_draft(self, name: str) -> Model | Drafter:
        if name == LOOKUP:
            return LookupDrafter(self.model.config.n_vocab)
        # After full acceptance a draft catches up with two tokens in one pass.
        return self.ready(self.load("draft", name, 2 * self.texts), 2)

    def ready(self, model: Decoder, tokens_per_pass: int) -> Model:
        """Return the model as the loops run it, up to so many tokens in one pass."""
        if self.options.compile:
            sizes, needed = (1, tokens_per_pass), len(self.prompt.ids) + self.options.max_new_tokens
            if self.group is not None and isinstance(model, Leader):
                return self.coupled(LedGraphs(model, self.group, sizes, needed))
            return self.coupled(Graphed(model, sizes, needed))
        return self.coupled(Uncached(model) if self.options.no_cache else model)

    def coupled(self, model: Model) -> Model:
        """Return the model with the noise that both models share, if there is any."""
        return model if self.noise is None else Coupled(model, self.sampling, self.noise)

    def gamma(self) -> int | Gamma:
        """Return the number, or a new object that chooses it in one run."""
        return AdaptiveGamma() if self.options.gamma == "auto" else self.options.gamma

    @property
    def most_kept(self) -> int:
        """The most drafted tokens that a round can keep."""
        return most(self.gamma()) if self.shape is None else self.shape.depth

    def generator(self, seed: int | None = None) -> torch.Generator:
        """Return a new generator of a seed, else of the run's; a greedy run draws nothing."""
        seed = self.options.seed if seed is None else seed
        if seed is None:
            return new_generator()
        return torch.Generator(self.device).manual_seed(seed)

    @property
    def rule(self) -> Rule:
        return accept_block if self.options.rule == "block" else usual_rule(self.loop_sampling)

    @property
    def eos(self) -> Eos:
        return None if self.options.ignore_eos else self.prompt.tokenizer.ends

    @property
    def stop(self) -> Stop | None:
        strings = self.options.stop
        return None if strings is None else Stop(strings, self.prompt.tokenizer)

    def baseline(self, max_new_tokens: int, seed: int | None = None) -> Iterator[Round]:
        """Start the plain loop. seed: None takes the run's."""
        return self.counted("baseline", autoregressive_rounds(
            self.target, self.prompt.ids, max_new_tokens, sampling=self.loop_sampling,
            eos=self.eos, stop=self.stop, generator=self.generator(seed)))

    def speculative(self, max_new_tokens: int, seed: int | None = None) -> Iterator[Round]:
        """Start the speculative loop. seed: None takes the run's."""
        assert self.draft is not None  # every mode but baseline has one
        trace = self.options.trace or self.options.record is not None
        if self.shape is not None:
            return self.counted("speculative", tree_rounds(
                cast(TreeModel, self.target), tree_drafter(cast(TreeModel, self.draft), self.shape),
                self.prompt.ids, max_new_tokens, sampling=self.loop_sampling, eos=self.eos,
                stop=self.stop, generator=self.generator(seed), trace=trace))
        return self.counted("speculative", speculative_rounds(
            self.target, self.draft, self.prompt.ids, max_new_tokens, gamma=self.gamma(),
            rule=self.rule, sampling=self.loop_sampling, eos=self.eos,
            stop=self.stop, generator=self.generator(seed), trace=trace))

    def counted(self, title: str, rounds: Iterator[Round]) -> Iterator[Round]:
        """Yield the same rounds; at their end note what the processes had to say meanwhile."""
        before = None if self.group is None else replace(self.group.traffic)
        yield from rounds
        if before is not None and self.group is not None:
            self.traffic[title] = asdict(self.group.traffic.since(before))

    def first_difference(self, baseline: Generation,
                         speculative: Generation) -> Difference | None:
        """Return what the audit finds where two greedy texts part; None if they are the same."""
        block = (len(speculative.tokens) if self.options.no_cache else
                 speculative.gamma + 1 if self.shape is None else self.shape.nodes + 1)
        return first_difference(self.coupled(self.model), self.prompt.ids, baseline.tokens,
                                speculative.tokens, block)

    def settings(self) -> dict:
        """Return every option's value, and what `auto` and the defaults came to."""
        options = {name: value for name, value in vars(self.options).items()
                   if name not in ("prompt", "list_models")}
        return options | {"device": self.device, "dtype": dtype_name(self.dtype),
                          "layout": layout_name(self.model), "head": head_name(self.model),
                          "threads": torch.get_num_threads()}

    def banner(self) -> str:
        """Return one line: which models, where, and how the next token is chosen."""
        options, sampling = self.options, self.sampling
        drafts = f"gamma {options.gamma}" if self.shape is None else f"tree {options.tree}"
        draft = "" if options.draft is None else f", draft {options.draft}, {drafts}"
        how = "greedy" if sampling.greedy else f"temperature {sampling.temperature:g}"
        how += f", top-k {sampling.top_k}" if sampling.top_k and not sampling.greedy else ""
        how += f", top-p {sampling.top_p}" if sampling.top_p and not sampling.greedy else ""
        how += ", block rule" if options.rule == "block" else ""
        how += "" if options.seed is None else f", seed {options.seed}"
        how += "" if self.noise is None else ", shared Gumbel noise"
        graphs = ", CUDA graphs" if options.compile else ""
        threads = describe_threads(torch.get_num_threads())
        layout = layout_name(self.model)
        spread = "" if self.group is None else f"{self.group.size} processes of "
        return (f"target {options.target}{draft}, {how}; {dtype_name(self.dtype)} on "
                f"{self.device}, {spread}{threads}, layout {layout}{graphs}")

    def text_of(self, ids: list[int]) -> str:
        """Return the text of new ids, without end-of-text; half a character is U+FFFD.

        A stop string is no part of it.
        """
        return text_of(ids, self.prompt.tokenizer, self.stop)

    def show(self, token: int) -> str:
        """Return a token as it can be printed."""
        return show_token(token, self.prompt.tokenizer)


def check_graphs(device: str) -> None:
    """Raise ValueError for a device that has no CUDA graphs.

    On a CPU the compiler was tried instead: it gained nothing.
    """
    if device != "cuda":
        raise ValueError(f"--compile replays CUDA graphs, and this runs on {device}; leave it out")
