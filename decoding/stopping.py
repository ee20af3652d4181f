"""What is asked for, what is refused, and when a text ends."""
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from decoding.feed import Config
from decoding.random import Generator, new_generator
from decoding.sampling import Sampling, is_whole
from decoding.stop import Stop

Eos = int | Collection[int] | None  # the id that ends a text, or several; None: nothing does


@dataclass(frozen=True)
class Request:
    """One continuation to be written: all that a loop needs to know besides the models."""

    prompt: list[int]
    end: int  # the most ids that prompt and continuation may have together
    n_ctx: int  # of the target
    sampling: Sampling
    eos: frozenset[int]  # each of these ids ends a text
    generator: Generator
    stop: Stop | None = None

    def room(self, length: int, draft_ctx: float) -> int:
        """Return how many tokens can be drafted after a text of `length`, at least 0.

        draft_ctx: the longest text the drafter can continue.
        """
        budget = self.end - length - 1  # one token of it is the target's own
        target = self.n_ctx - length  # the target reads every drafted token
        draft = draft_ctx - length + 1  # the draft reads all but the last
        return int(max(0, min(budget, target, draft)))

    def finish_reason(self, tokens: list[int]) -> str | None:
        """Say why the text ends here, if it does: "eos", "stop", "length", or "context" (full).

        The last id is never fed, so a text can be one id longer than the context.
        """
        if tokens[-1] in self.eos:
            return "eos"
        if self.stop is not None and self.stop.ends(tokens[len(self.prompt):]):
            return "stop"
        if len(tokens) >= self.end:
            return "length"
        return "context" if len(tokens) > self.n_ctx else None

    def kept(self, tokens: list[int], accepted: list[int]) -> list[int] | None:
        """Return the accepted tokens up to one that ends the text, None if none does.

        tokens: the text before them.
        """
        text = tokens[len(self.prompt):]
        for i, token in enumerate(accepted, start=1):
            text.append(token)
            if token in self.eos or (self.stop is not None and self.stop.ends(text)):
                return accepted[:i]
        return None


def new_request(config: Config, prompt: list[int], max_new_tokens: int, sampling: Sampling,
                eos: Eos, generator: Generator | None,
                stop: Stop | None = None) -> Request:
    """Return what is asked of a model of this configuration.

    generator: None makes one seeded from the system.
    Raises ValueError, with what is wrong in one line, for what cannot be served.
    """
    check_request(config, prompt, max_new_tokens, eos)
    ids, end = list(map(int, prompt)), len(prompt) + int(max_new_tokens)  # no bytes of numpy's
    return Request(ids, end, config.n_ctx, sampling, as_set(eos), generator or new_generator(),
                   stop)


def check_request(config: Config, prompt: list[int], max_new_tokens: int, eos: Eos) -> None:
    """Raise ValueError, with what is wrong in one line, for a request that cannot be served."""
    if (not isinstance(prompt, Sequence) or isinstance(prompt, (str, bytes))
            or not all(map(is_whole, prompt))):
        raise ValueError("the prompt must be a list of token ids, as tokenizer.encode returns it, "
                         f"not a {type(prompt).__name__} like {str(prompt)[:20]!r}")
    if len(prompt) == 0:
        raise ValueError("the prompt is empty; it needs at least one token id")
    if len(prompt) > config.n_ctx:
        raise ValueError(f"the prompt has {len(prompt)} tokens, but the model's context is "
                         f"{config.n_ctx}; shorten it")
    if not all(0 <= token < config.n_vocab for token in prompt):
        raise ValueError("the prompt has ids that are not among the model's "
                         f"{config.n_vocab} tokens")
    if not is_whole(max_new_tokens) or max_new_tokens < 0:
        raise ValueError("max_new_tokens must be a whole number of at least 0, "
                         f"not {max_new_tokens!r}")
    if not all(is_whole(id) and 0 <= id < config.n_vocab for id in as_set(eos)):
        raise ValueError(f"eos must be one or several ids of the model's {config.n_vocab} tokens, "
                         f"or None, not {eos!r}")


def as_set(eos: Eos) -> frozenset:
    """Return the ids that end a text."""
    if eos is None:
        return frozenset()
    return frozenset(eos) if isinstance(eos, Collection) else frozenset([eos])


def check_vocabulary(draft: object, n_vocab: int) -> None:
    """Raise ValueError if the draft's vocabulary has another size than the target's, `n_vocab`.

    draft: a drafter, or a model's configuration. One that names no `n_vocab` passes.
    """
    found = getattr(draft, "n_vocab", n_vocab)
    if found != n_vocab:
        raise ValueError(f"the draft has {found} tokens in its vocabulary, the target {n_vocab}")


def warn_of_context(end: int, n_ctx: int, draft_ctx: float) -> None:
    """Warn the caller of the calling function if the draft's context is full before the text ends.

    end: the most ids of the text. n_ctx: of the target.
    """
    if min(end - 2, n_ctx - 1) > draft_ctx:
        warnings.warn(f"the draft reads at most {draft_ctx} tokens; beyond them the target "
                      "goes on alone", stacklevel=3)
