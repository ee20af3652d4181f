"""Contestants decode in turns, a few rounds each, and every round is timed.

So that a slow moment of the machine hits all of them. Imports no torch.
"""
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import NamedTuple

from decoding.bench.clean import is_clean, waited

TURN_SECONDS = 0.1  # how long a turn lasts at least


class Contestant(NamedTuple):
    """Who decodes, and the tokens drafted per round; 0 is the plain loop."""

    who: str
    gamma: int


Rounds = Iterator[tuple[float, list[int]]]  # of each round the seconds and the new ids
Start = Callable[[], Rounds]  # begins a run; the prompt is read before the first round ends


@dataclass
class Record:
    """What one contestant has done.

    A round counts if as many tokens were drafted in it as in any other: in the last rounds of a run
    fewer are, since the text may not become longer. It is timed if it was not the first of a turn,
    which has to wake threads and to fill caches, nor of a run, which may read the prompt.
    """

    counted: list[int] = field(default_factory=list)  # new tokens of each round that counts
    timed: list[float] = field(default_factory=list)  # seconds of each round that is timed
    clean: list[float] = field(default_factory=list)  # of those that had their cores to themselves
    runs: list[list[int]] = field(default_factory=list)  # the new ids of each run

    @property
    def tokens_per_round(self) -> float:
        return sum(self.counted) / len(self.counted)

    @property
    def tokens_per_second(self) -> float | None:
        """The median of the clean rounds; None if there is none."""
        return self.tokens_per_round / median(self.clean) if self.clean else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """The tokens per second between which half of the clean rounds lie; None if under two."""
        if len(self.clean) < 2:
            return None
        low, _, high = quantiles(self.clean, n=4, method="inclusive")
        return self.tokens_per_round / high, self.tokens_per_round / low


def take_turns(starts: dict[Contestant, Start], records: dict[Contestant, Record], tokens: int,
               pids: Sequence[int]) -> None:
    """Let every contestant decode one run of so many tokens, in turns, and add to its record.

    pids: the processes of all contestants.
    """
    runs = {contestant: start() for contestant, start in starts.items()}
    texts: dict[Contestant, list[int]] = {contestant: [] for contestant in starts}
    while runs:
        for contestant in list(runs):
            take_turn(contestant, runs[contestant], texts[contestant], records[contestant],
                      tokens, pids)
            if len(texts[contestant]) >= tokens:
                records[contestant].runs.append(texts[contestant][:tokens])
                del runs[contestant]


def take_turn(contestant: Contestant, run: Rounds, text: list[int], record: Record, tokens: int,
              pids: Sequence[int]) -> None:
    """Let one contestant decode for TURN_SECONDS and at least two rounds, or to the run's end.

    text: its new ids so far, which grow.
    """
    turn_seconds = rounds = 0.0
    while len(text) < tokens and (rounds < 2 or turn_seconds < TURN_SECONDS):
        counts = tokens - len(text) > contestant.gamma
        before = waited(pids)
        seconds, ids = next(run)
        wait = waited(pids) - before
        text += ids
        if counts:
            record.counted.append(len(ids))
        if counts and rounds > 0:
            record.timed.append(seconds)
            if is_clean(seconds, wait):
                record.clean.append(seconds)
        turn_seconds, rounds = turn_seconds + seconds, rounds + 1
