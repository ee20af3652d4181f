"""A run in a file, so that it can be shown again without a model.

`python -m decoding.generate … --record FILE` writes one, and `tutorials/play.html` shows it. It is
a JSON object, in UTF-8:

    recording   1, the version of this format
    prompt      the tokens of the prompt. A token is {"id": …, "text": …}; bytes that are no whole
                character stand as U+FFFD in its text
    settings    every option's value, as in the output of --json
    gamma       the most tokens drafted in a round
    rounds      in order, each of them an object:
        drafted       tokens, each also with q and p, its probability by draft and target, and u,
                      the uniform of its test (null where the rule draws none)
        accepted      how many of them stay
        extra         the token that is not the draft's, or null
        kind          "correction" (after a rejection), "bonus" (all were accepted) or "none"
        residual      after a rejection in a sampled run: the likeliest tokens of max(0, p - q),
                      each with its probability p; else empty
        target_cache  [length before, length after] the rewind; [0, 0] without a cache
        draft_cache   the same; null for a draft that is no model
        finish_reason, seconds, phase_seconds, prefill_seconds   as in decoding/result.py
"""
import json
import math
from pathlib import Path

from torch import Tensor

from decoding.acceptance import residual
from decoding.result import Generation, Round
from weights.files import parse_json
from weights.output import write_text
from weights.vocabulary import Tokenizer

VERSION = 1
SHOWN = 6  # tokens of a residual
SAME = ("accepted", "kind", "finish_reason", "seconds", "phase_seconds", "prefill_seconds")


def write_recording(path: Path, prompt: list[int], run: Generation, settings: dict,
                    tokenizer: Tokenizer) -> None:
    """Write a run with its traces. Raises OSError if the file cannot be written."""
    recording = {"recording": VERSION, "prompt": [token(id, tokenizer) for id in prompt],
                 "settings": settings, "gamma": run.gamma,
                 "rounds": [describe_round(round, tokenizer) for round in run.rounds]}
    write_text(path, json.dumps(recording, ensure_ascii=False, allow_nan=False))


def describe_round(round: Round, tokenizer: Tokenizer) -> dict:
    """Return a round as it is recorded. Raises ValueError if it was run without trace=True."""
    trace = round.trace
    if trace is None:
        raise ValueError("this round was run without trace=True")
    drafted = [token(id, tokenizer) | {"q": trace.q[i, id].item(), "p": trace.p[i, id].item(),
                                       "u": None if trace.u is None else trace.u[i].item()}
               for i, id in enumerate(round.drafted)]
    rest = (residual(trace.p[round.accepted], trace.q[round.accepted])
            if round.kind == "correction" and trace.u is not None else None)
    return {"drafted": drafted,
            "extra": None if round.extra is None else token(round.extra, tokenizer),
            "residual": [] if rest is None else likeliest(rest, tokenizer),
            "target_cache": list(round.target_cache),
            "draft_cache": None if round.draft_cache is None else list(round.draft_cache),
            } | {name: getattr(round, name) for name in SAME}


def likeliest(row: Tensor, tokenizer: Tokenizer) -> list[dict]:
    """Return the largest entries of a row of probabilities, without zeros. (n_vocab,)"""
    values, ids = row.topk(min(SHOWN, int((row > 0).sum())))
    return [token(id, tokenizer) | {"p": p} for id, p in zip(ids.tolist(), values.tolist())]


def token(id: int, tokenizer: Tokenizer) -> dict:
    return {"id": id, "text": tokenizer.decode_single_token_bytes(id).decode("utf-8", "replace")}


def read_recording(path: Path) -> Generation:
    """Return the recorded run, without traces. Raises ValueError if the file is no recording."""
    try:
        recording = parse_json(path.read_text(encoding="utf-8"))
        version = recording["recording"]
        rounds, gamma = recording["rounds"], recording["gamma"]
        if version == VERSION:
            rounds = [read_round(round) for round in rounds]
            sound = is_number(gamma, whole=True) and all(is_sound(r, gamma) for r in rounds)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise no_recording(path) from error
    if version != VERSION:
        raise ValueError(f"{path} is a recording of version {version!r}, but this program reads "
                         f"version {VERSION}")
    if not sound:
        raise no_recording(path)
    return Generation(rounds, gamma)


def no_recording(path: Path) -> ValueError:
    return ValueError(f"{path} is no recording; `python -m decoding.generate --record FILE` "
                      "writes one")


def read_round(round: dict) -> Round:
    return Round(drafted=[token["id"] for token in round["drafted"]],
                 extra=None if round["extra"] is None else round["extra"]["id"],
                 target_cache=tuple(round["target_cache"]),
                 draft_cache=None if round["draft_cache"] is None else tuple(round["draft_cache"]),
                 **{name: round[name] for name in SAME})


def is_sound(round: Round, gamma: int) -> bool:
    """Return whether the parts of a round are what they should be, and agree with one another."""
    n, caches = len(round.drafted), [round.target_cache, round.draft_cache or (0, 0)]
    counts = [gamma - n, n - round.accepted, round.accepted, *round.drafted, *caches[0], *caches[1]]
    kind = ("none" if round.extra is None else
            "bonus" if round.accepted == n else "correction")
    times = [round.seconds, *round.phase_seconds.values()]
    return (all(is_number(count, whole=True) for count in counts)
            and [len(cache) for cache in caches] == [2, 2] and round.kind == kind
            and (round.extra is None or is_number(round.extra, whole=True))
            and all(is_number(time) for time in times)
            and (round.prefill_seconds is None or is_number(round.prefill_seconds))
            and round.finish_reason in (None, "eos", "stop", "length", "context"))


def is_number(value: object, whole: bool = False) -> bool:
    """Return whether a value is a finite number of at least 0."""
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < math.inf
