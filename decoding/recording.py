"""A run in a file, so that it can be shown again without a model.

`python -m decoding.generate … --record FILE` writes one, and `tutorials/play.html` shows it; so
does `decoding.picture`: `draw_run(read_recording(Path(FILE))).savefig("run.png")`. It is a JSON
object, in UTF-8:

    recording   2, the version of this format
    prompt      the tokens of the prompt. A token is {"id": …, "text": …}; bytes that are no whole
                character stand as U+FFFD in its text
    settings    every option's value, as in the output of --json
    gamma       the most tokens drafted in a round, 1024 at most; of trees, their depth
    rounds      in order, each of them an object:
        drafted       tokens, each also with
                          q, p     its probability by draft and target; of a candidate that was
                                   drawn for a position after others, what they left of it
                          u        the uniform of its test, null where the rule draws none
                          verdict  "accepted", "rejected" or "not tested"
                          P, h     by the block rule only: see Block in decoding/acceptance.py
        parents       of a tree: for each drafted token the index of the one that it follows, -1 for
                      the text; null for a chain, where each follows the one before it
        block         whether the tokens were judged together, by the block rule
        extra         the token that is not the draft's, or null
        kind          "correction" (after a rejection), "bonus" (all of a chain, or a path down to a
                      leaf, was accepted) or "none"
        residual      after a rejection in a sampled run: the likeliest tokens of what the
                      correction was drawn from, max(0, p - q) or max(0, P p - q), each with its
                      probability p; else empty
        target_cache  [length before, length after] the rewind; [0, 0] without a cache
        draft_cache   the same; null for a draft that is no model
        finish_reason, seconds, phase_seconds, prefill_seconds   as in decoding/result.py

The page and `read_recording` read the same files, and refuse the same.
"""
import json
import math
from pathlib import Path
from typing import Any

from torch import Tensor

from decoding.drafters.tree import TEXT
from decoding.evidence import Evidence, evidence
from decoding.gamma import LARGEST_GAMMA
from decoding.result import Generation, Round
from decoding.tree import TreeRound, depths
from weights.files import to_text
from weights.output import write_text
from weights.vocabulary import Tokenizer

VERSION = 2
SHOWN = 6  # tokens of a residual
SAME = ("block", "kind", "finish_reason", "seconds", "phase_seconds", "prefill_seconds")


def write_recording(path: Path, prompt: list[int], run: Generation, settings: dict,
                    tokenizer: Tokenizer) -> None:
    """Write a run with its traces. Raises OSError if the file cannot be written."""
    recording = {"recording": VERSION, "prompt": [token(id, tokenizer) for id in prompt],
                 "settings": settings, "gamma": run.gamma,
                 "rounds": [describe_round(round, tokenizer) for round in run.rounds]}
    write_text(path, json.dumps(recording, ensure_ascii=False, allow_nan=False))


def describe_round(round: Round, tokenizer: Tokenizer) -> dict:
    """Return a round as it is recorded. Raises ValueError if it was run without trace=True."""
    tests, rest = evidence(round)
    drafted = [token(id, tokenizer) | described(test, verdict)
               for id, test, verdict in zip(round.drafted, tests, round.verdicts)]
    return {"drafted": drafted,
            "parents": round.parents if isinstance(round, TreeRound) else None,
            "extra": None if round.extra is None else token(round.extra, tokenizer),
            "residual": [] if rest is None else likeliest(rest, tokenizer),
            "target_cache": list(round.target_cache),
            "draft_cache": None if round.draft_cache is None else list(round.draft_cache),
            } | {name: getattr(round, name) for name in SAME}


def described(test: Evidence, verdict: str) -> dict:
    """Return what is recorded of a drafted token beside its name."""
    return {name: value for name, value in test._asdict().items()
            if value is not None or name == "u"} | {"verdict": verdict}


def likeliest(row: Tensor, tokenizer: Tokenizer) -> list[dict]:
    """Return the largest entries of a row of probabilities, without zeros. (n_vocab,)"""
    values, ids = row.topk(min(SHOWN, int((row > 0).sum())))
    return [token(id, tokenizer) | {"p": p} for id, p in zip(ids.tolist(), values.tolist())]


def token(id: int, tokenizer: Tokenizer) -> dict:
    return {"id": id, "text": tokenizer.decode_single_token_bytes(id).decode("utf-8", "replace")}


def read_recording(path: Path) -> Generation:
    """Return the recorded run, without traces. Raises ValueError if the file is no recording."""
    try:
        recording = parse(to_text(path.read_bytes(), str(path)))
        version, told, gamma = (recording[name] for name in ("recording", "rounds", "gamma"))
        if version == VERSION:
            rounds = [read_round(round) for round in told]
            sound = (rounds != [] and is_number(gamma, whole=True) and gamma <= LARGEST_GAMMA
                     and are_tokens(recording["prompt"])
                     and isinstance(recording["settings"], dict)
                     and all(is_sound(round, gamma) for round in rounds)
                     and all(map(is_as_told, rounds, told)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise no_recording(path) from error
    if version != VERSION:
        raise ValueError(f"{path} is a recording of version {version!r}, but this program reads "
                         f"version {VERSION}")
    if not sound:
        raise no_recording(path)
    return Generation(rounds, gamma)


def parse(text: str) -> Any:
    """Return what a JSON text says to a browser: 8.0 is 8, and NaN is no number."""
    def number(digits: str) -> float:
        value = float(digits)
        return int(value) if value.is_integer() else value

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")
    return json.loads(text, parse_int=number, parse_float=number, parse_constant=refuse)


def no_recording(path: Path) -> ValueError:
    return ValueError(f"{path} is no recording; `python -m decoding.generate --record FILE` "
                      "writes one")


def read_round(told: dict) -> Round:
    path = [i for i, token in enumerate(told["drafted"]) if token["verdict"] == "accepted"]
    fields: dict[str, Any] = {
        "drafted": [token["id"] for token in told["drafted"]], "accepted": len(path),
        "extra": None if told["extra"] is None else told["extra"]["id"],
        "target_cache": tuple(told["target_cache"]),
        "draft_cache": None if told["draft_cache"] is None else tuple(told["draft_cache"]),
        } | {name: told[name] for name in SAME}
    parents = told["parents"]
    return Round(**fields) if parents is None else TreeRound(**fields, parents=parents, path=path)


def is_sound(round: Round, gamma: int) -> bool:
    """Return whether the parts of a round are what they should be, and agree with one another."""
    n, caches = len(round.drafted), [round.target_cache]
    caches += [] if round.draft_cache is None else [round.draft_cache]
    chain = list(range(-1, n - 1)), list(range(round.accepted))
    parents, path = (round.parents, round.path) if isinstance(round, TreeRound) else chain
    kind = ("none" if round.extra is None else
            "correction" if [TEXT, *path][-1] in parents else "bonus")
    return (len(parents) == n and is_path(path, parents, gamma) and round.kind == kind
            and isinstance(round.block, bool) and all(len(cache) == 2 for cache in caches)
            and all(is_number(length, whole=True) for cache in caches for length in cache)
            and all(is_number(time) for time in [round.seconds, *round.phase_seconds.values()])
            and (round.prefill_seconds is None or is_number(round.prefill_seconds))
            and round.finish_reason in (None, "eos", "stop", "length", "context"))


def is_path(path: list[int], parents: list[int], gamma: int) -> bool:
    """Return whether these tokens lead down from the text, in a tree that is no deeper than gamma.

    parents: each of them, in a list of any length, must come before its child.
    """
    return (isinstance(parents, list)
            and all(type(parent) is int and TEXT <= parent < i for i, parent in enumerate(parents))
            and [parents[i] for i in path] == [TEXT, *path][:len(path)]
            and max(depths(parents), default=0) <= gamma)


def is_as_told(round: Round, told: dict) -> bool:
    """Return whether the tokens of a round have all they should have, and the right verdicts."""
    numbers = ("q", "p", "P", "h") if round.block else ("q", "p")
    return (are_tokens(told["drafted"], *numbers) and are_tokens(told["residual"], "p")
            and are_tokens([] if told["extra"] is None else [told["extra"]])
            and all(token["u"] is None or is_number(token["u"]) for token in told["drafted"])
            and [token["verdict"] for token in told["drafted"]] == round.verdicts)


def are_tokens(tokens: list[dict], *numbers: str) -> bool:
    """Return whether these are tokens that have numbers of these names."""
    return isinstance(tokens, list) and all(
        is_number(token["id"], whole=True) and isinstance(token["text"], str)
        and all(is_number(token[name]) for name in numbers) for token in tokens)


def is_number(value: object, whole: bool = False) -> bool:
    """Return whether a value is a finite number of at least 0."""
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < math.inf
