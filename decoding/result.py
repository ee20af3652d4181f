"""The result of a run: its rounds, and the numbers made of them, each with one meaning."""
from dataclasses import dataclass, field
from functools import cached_property

from decoding.observer import Trace


@dataclass(frozen=True)
class Round:
    """One pass of the target, and the tokens that came of it.

    In the baseline nothing is drafted and every token is a bonus.
    """

    drafted: list[int]
    accepted: int  # how many of them stay, counted from the first
    extra: int | None  # the one token that is not the draft's
    kind: str  # "correction" after a rejection, "bonus" when all were accepted; else "none"
    target_cache: tuple[int, int]  # length before and after the rewind; (0, 0) without a cache
    draft_cache: tuple[int, int] | None  # None for a draft that is no model
    finish_reason: str | None  # in the last round: "eos", "stop", "length" or "context"
    seconds: float  # from the draft's first step to the rewind
    prefill_seconds: float | None = None  # in the first round
    block: bool = False  # the drafted tokens were judged together, by the block rule
    phase_seconds: dict[str, float] = field(default_factory=dict)  # "draft", "verify", "accept"
    trace: Trace | None = None

    @property
    def emitted(self) -> list[int]:
        return self.drafted[: self.accepted] + ([] if self.extra is None else [self.extra])

    @property
    def tested(self) -> int:
        """Drafted tokens the rule decided on: the accepted ones, and the one it rejected.

        The block rule rejects all the others together.
        """
        rejected = len(self.drafted) - self.accepted if self.block else 1
        return self.accepted + rejected * (self.kind == "correction")

    @property
    def verdicts(self) -> list[str]:
        """What became of each drafted token: "accepted", "rejected" or "not tested"."""
        return ["accepted" if i < self.accepted else "rejected" if i < self.tested
                else "not tested" for i in range(len(self.drafted))]


@dataclass(frozen=True)
class Generation:
    """A finished run. The counts obey, exactly:

    new_tokens = accepted + corrections + bonuses    rounds = corrections + bonuses + cut
    tested = accepted + corrections                  accepted <= tested <= drafted <= gamma * rounds

    Under the block rule a correction rejects several tokens, so tested can be more.
    """

    rounds: list[Round]
    gamma: int  # the most tokens drafted per round; 0 in the baseline

    @cached_property
    def tokens(self) -> list[int]:
        """The new ids only, an end-of-text included."""
        return [token for r in self.rounds for token in r.emitted]

    @property
    def finish_reason(self) -> str | None:
        """Why it ended; None if it was left in the middle."""
        return self.rounds[-1].finish_reason if self.rounds else "length"

    @cached_property
    def new_tokens(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        return sum(len(r.drafted) for r in self.rounds)

    @property
    def tested(self) -> int:
        return sum(r.tested for r in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(r.accepted for r in self.rounds)

    @property
    def corrections(self) -> int:
        return sum(r.kind == "correction" for r in self.rounds)

    @property
    def bonuses(self) -> int:
        return sum(r.kind == "bonus" for r in self.rounds)

    @property
    def cut(self) -> int:
        """Rounds ended by an accepted end-of-text, or end of a stop string: 0 or 1."""
        return sum(r.kind == "none" for r in self.rounds)

    @property
    def histogram(self) -> list[int]:
        """histogram[i] = rounds in which exactly i drafted tokens were accepted, i = 0 .. gamma."""
        counts = [0] * (self.gamma + 1)
        for r in self.rounds:
            counts[r.accepted] += 1
        return counts

    @property
    def accepted_per_drafted(self) -> float | None:
        """Falls with gamma by construction: what is drafted after a rejection counts as drafted."""
        return ratio(self.accepted, self.drafted)

    @property
    def accepted_per_tested(self) -> float | None:
        """Estimates alpha, the probability that a drafted token is accepted when its turn comes.

        None under the block rule: there no token has a turn of its own.
        """
        return None if any(r.block for r in self.rounds) else ratio(self.accepted, self.tested)

    @property
    def tokens_per_round(self) -> float | None:
        return ratio(self.new_tokens, len(self.rounds))

    @property
    def prefill_seconds(self) -> float | None:
        """None where there was no cache to fill."""
        cached = any(lengths and lengths[0] > 0 for r in self.rounds[:1]
                     for lengths in (r.target_cache, r.draft_cache))
        return self.rounds[0].prefill_seconds if cached else None

    @property
    def decode_seconds(self) -> float:
        """Everything after the prefill."""
        return sum(r.seconds for r in self.rounds)

    @property
    def tokens_per_second(self) -> float | None:
        return ratio(self.new_tokens, self.decode_seconds)

    def stats(self) -> dict[str, int | float | list[int] | None]:
        """Return every number of the run by name; a ratio over nothing is None."""
        return {"rounds": len(self.rounds)} | {name: getattr(self, name) for name in NUMBERS}


NUMBERS = ("new_tokens", "drafted", "tested", "accepted", "corrections", "bonuses", "cut",
           "histogram", "accepted_per_drafted", "accepted_per_tested", "tokens_per_round",
           "prefill_seconds", "decode_seconds", "tokens_per_second")


def ratio(part: float, whole: float) -> float | None:
    """Divide part by whole; None instead of a division by nothing."""
    return part / whole if whole else None
