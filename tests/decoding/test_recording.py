"""Runs written by --record, and read again."""
import json
import math
from pathlib import Path

import pytest
import torch

from decoding.acceptance import residual
from decoding.proof.toys import HashModel
from decoding.recording import VERSION, describe_round, read_recording
from decoding.sampling import GREEDY, UNCHANGED
from decoding.speculative import speculative_rounds, usual_rule
from tests.commands import one_line


class Letters:
    """A tokenizer of the toy models' tokens."""

    def decode_single_token_bytes(self, token):
        return [b"a", b"b", b"\xc3"][token]


def toy_rounds(sampling, trace=True):
    return list(speculative_rounds(
        HashModel(1), HashModel(2), [0, 1], 12, gamma=3, rule=usual_rule(sampling),
        sampling=sampling, generator=torch.Generator().manual_seed(0), trace=trace))


@pytest.mark.parametrize("sampling", [UNCHANGED, GREEDY])
def test_what_is_recorded_is_what_was_computed(sampling):
    rounds = toy_rounds(sampling)
    assert {round.kind for round in rounds} == {"correction", "bonus"}
    for round in rounds:
        seen, trace = describe_round(round, Letters()), round.trace
        for i, (token, id) in enumerate(zip(seen["drafted"], round.drafted, strict=True)):
            assert token["id"] == id and token["text"] == ["a", "b", "\ufffd"][id]
            assert (token["q"], token["p"]) == (trace.q[i, id], trace.p[i, id])
            assert token["u"] == (None if sampling.greedy else trace.u[i])
        rejected = round.kind == "correction" and not sampling.greedy
        rest = residual(trace.p[round.accepted], trace.q[round.accepted]) if rejected else []
        assert {token["id"]: token["p"] for token in seen["residual"]} == {
            id: p for id, p in enumerate(rest) if p > 0}


def test_a_round_without_a_trace_cannot_be_recorded():
    with pytest.raises(ValueError, match="trace=True"):
        describe_round(toy_rounds(UNCHANGED, trace=False)[0], Letters())


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    ["--temperature", 0], ["--max-new-tokens", 0], ["--temperature", 0.8, "--seed", 3],
    ["--temperature", 0.8, "--seed", 3, "--draft", "lookup"],
    ["--temperature", 0.8, "--seed", 3, "--coupling", "gumbel"],
    ["--temperature", 0.8, "--seed", 3, "--no-cache"]])
def test_a_recording_holds_the_run(generate, tmp_path, options):
    file = tmp_path / "run.json"
    answer = generate("--gamma", 3, "--max-new-tokens", 12, "--mode", "speculative", "--json",
                      "--record", file, *options)
    assert answer.code == 0, answer.err
    wanted = json.loads(answer.out)
    run = read_recording(file)
    assert run.tokens == wanted["speculative"]["tokens"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", [
    "", "no JSON", "[" * 10**5, "[]", "null", "{}", '{"recording": 1}',
    '{"recording": 1, "rounds": [{}]}',
    '{"recording": 1, "gamma": 4, "rounds": [{"drafted": 3}]}', "\ud800"])
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path, text):
    file = tmp_path / "run.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"run\.json is no recording; .*--record FILE"):
        read_recording(file)


SPOILT = {"accepted": [-1, 4, True, 1.0, None, "1"], "kind": ["bonus", "x", None], "gamma": [1, -1],
          "extra": [None, {}, {"id": -1}, {"id": 1.5}, {"id": True}, 3],
          "drafted": [[], [{"id": "x"}], [3]], "target_cache": [[1], [1, 2, 3], [0, "x"], None],
          "draft_cache": [[1], 3, [1, -1]], "finish_reason": ["x", 3, []],
          "seconds": [None, "1", math.nan, -1, True], "phase_seconds": [None, {"draft": "x"}, [1]],
          "prefill_seconds": ["x", math.inf]}


@pytest.mark.parametrize("name, value", [(name, v) for name in SPOILT for v in SPOILT[name]])
def test_a_recording_with_something_else_in_it_is_refused(name, value, tmp_path):
    file = tmp_path / "run.json"
    rounds = toy_rounds(UNCHANGED)
    recorded = {"recording": VERSION, "gamma": 3,
                "rounds": [describe_round(round, Letters()) for round in rounds]}
    file.write_text(json.dumps(recorded))
    assert read_recording(file).tokens == [token for r in rounds for token in r.emitted]
    spoilt = next(r for r in recorded["rounds"] if r["kind"] == "correction")
    (recorded if name == "gamma" else spoilt)[name] = value
    file.write_text(json.dumps(recorded))
    with pytest.raises(ValueError, match=r"run\.json is no recording"):
        read_recording(file)


def test_another_version_is_named(tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{"recording": 7, "gamma": 4, "rounds": [{}]}', encoding="utf-8")
    with pytest.raises(ValueError, match=f"version 7, but this program reads version {VERSION}"):
        read_recording(file)


def test_a_folder_that_is_not_there_is_said_before_the_run(generate, tmp_path):
    answer = generate("--record", tmp_path / "none" / "run.json")
    assert "there is no folder for --record" in one_line(answer)


def test_there_is_nothing_to_record_without_a_draft(generate):
    assert "does nothing in baseline mode" in one_line(
        generate("--mode", "baseline", "--record", "run.json"))
    assert not Path("run.json").exists()


@pytest.mark.parametrize("name, why", [
    ("folder", "Is a directory"), ("file/run.json", "there is no folder"),
    ("n" * 300, "File name too long"), ("a\0b", "null")])
def test_a_file_that_cannot_be_written_is_said_before_the_run(generate, tmp_path, name, why):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert why in one_line(generate("--record", f"{tmp_path}/{name}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
