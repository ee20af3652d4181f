"""Runs written by --record, and read again."""
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from decoding.acceptance import accept_block, residual
from decoding.drafters.tree import CombDrafter, WidthsDrafter
from decoding.picture import draw_run
from decoding.proof.tree_toys import HashTreeModel
from decoding.recording import VERSION, describe_round, read_recording, write_recording
from decoding.result import Generation
from decoding.sampling import GREEDY, UNCHANGED
from decoding.speculative import speculative_rounds, usual_rule
from decoding.tree import tree_rounds
from tests.commands import one_line

TARGET, DRAFT, PROMPT = HashTreeModel(1), HashTreeModel(2), [0, 1]


class Letters:
    """A tokenizer of the toy models' tokens."""

    def decode_single_token_bytes(self, token):
        return [b"a", b"b", b"\xc3"][token]


def chain_of(sampling, rule=None, trace=True, seed=0):
    return list(speculative_rounds(
        TARGET, DRAFT, PROMPT, 24, gamma=3, rule=rule or usual_rule(sampling), sampling=sampling,
        generator=torch.Generator().manual_seed(seed), trace=trace))


def trees_of(drafter, sampling, eos=None):
    return list(tree_rounds(TARGET, drafter, PROMPT, 24, sampling=sampling, trace=True, eos=eos,
                            generator=torch.Generator().manual_seed(0)))


CHAINS = {"one by one": chain_of(UNCHANGED), "greedy": chain_of(GREEDY)}
BLOCKS = chain_of(UNCHANGED, accept_block, seed=9)
TREES = {"comb": trees_of(CombDrafter(DRAFT, 3, 2), UNCHANGED),
         "tree": trees_of(WidthsDrafter(DRAFT, [2, 3, 1]), UNCHANGED)}
GREEDY_TREES = {"greedy comb": trees_of(CombDrafter(DRAFT, 3, 2), GREEDY),
                "greedy tree": trees_of(WidthsDrafter(DRAFT, [2, 2]), GREEDY)}
ENDED = trees_of(CombDrafter(DRAFT, 3, 2), UNCHANGED, eos=0)
RUNS = {**CHAINS, "block": BLOCKS, **TREES, **GREEDY_TREES, "ended": ENDED}


def described(rounds):
    """[(the round, what is recorded of it)]"""
    return [(round, describe_round(round, Letters())) for round in rounds]


def recorded(rounds, file, gamma=3):
    write_recording(file, PROMPT, Generation(rounds, gamma), {}, Letters())
    return json.loads(file.read_text(encoding="utf-8"))


def same_numbers(row, wanted):
    assert {token["id"]: token["p"] for token in row} == pytest.approx(
        {id: float(p) for id, p in enumerate(wanted) if p > 0}, abs=1e-12)


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_recorded_is_what_was_computed(name):
    rounds = described(CHAINS[name])
    assert {round.kind for round, _ in rounds} == {"correction", "bonus"}
    for round, seen in rounds:
        trace, n = round.trace, round.accepted
        assert seen["parents"] is None and seen["block"] is False
        for i, (token, id) in enumerate(zip(seen["drafted"], round.drafted, strict=True)):
            assert token["id"] == id and token["text"] == ["a", "b", "\ufffd"][id]
            assert (token["q"], token["p"]) == (trace.q[i, id], trace.p[i, id])
            assert token["u"] == (None if name == "greedy" else trace.u[i])
            assert token["verdict"] == ("accepted" if i < n else "rejected" if i == n
                                        else "not tested")
            assert set(token) == {"id", "text", "q", "p", "u", "verdict"}
        rejected = round.kind == "correction" and name != "greedy"
        same_numbers(seen["residual"], residual(trace.p[n], trace.q[n]) if rejected else [])


def test_a_block_is_recorded_with_what_decided_it():
    """P and h of each token by their definition, from the rows; the last test passed decides."""
    overruled = weighted = 0
    for round, seen in described(BLOCKS):
        (p, q), tokens, P, passed = (round.trace.p, round.trace.q), seen["drafted"], 1.0, 0
        k = len(tokens)
        for i, token in enumerate(tokens):
            P = min(1.0, P * token["p"] / token["q"])
            rest = P * p[i + 1] - q[i + 1] if i + 1 < k else P * p[i + 1]
            R = rest.clamp(min=0).sum().item()
            assert (token["P"], token["h"]) == pytest.approx((P, R / (R + 1 - P)), abs=1e-12)
            passed = i + 1 if token["u"] < token["h"] else passed
        assert [token["verdict"] for token in tokens] == [
            "accepted" if i < passed else "rejected" for i in range(k)]
        overruled += any(token["u"] >= token["h"] for token in tokens[:passed])
        assert seen["block"] is True and seen["parents"] is None
        P = tokens[passed - 1]["P"] if passed else 1
        wanted = (P * p[passed] - q[passed]).clamp(min=0) if passed < k else torch.zeros(1)
        same_numbers(seen["residual"], wanted / wanted.sum() if passed < k else [])
        if passed < k:
            weighted += not torch.allclose(residual(P * p[passed], q[passed]),
                                           residual(p[passed], q[passed]))
    assert overruled > 0 and weighted > 0


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_recorded_with_every_candidate_as_it_was_tested(name):
    siblings = 0
    for round, seen in described(TREES[name]):
        tokens, tests = seen["drafted"], {test.node: test for test in round.trace.tests}
        assert [token["id"] for token in tokens] == round.drafted
        assert seen["parents"] == round.parents
        left = {}  # of q, after the candidates before
        for i, (token, parent) in enumerate(zip(tokens, seen["parents"])):
            q = round.trace.q[i, token["id"]].item()
            assert token["q"] == pytest.approx(q / left.get(parent, 1.0), abs=1e-12)
            left[parent] = left.get(parent, 1.0) - q
            test = tests.get(i)
            if test is None:
                assert (token["u"], token["verdict"]) == (None, "not tested")
            else:
                assert token["u"] == test.u.item()
                assert token["p"] / token["q"] == pytest.approx(test.ratio.item(), abs=1e-12)
                kept = (test.u < test.ratio).item()
                assert token["verdict"] == ("accepted" if kept else "rejected")
        kept = [i for i, token in enumerate(tokens) if token["verdict"] == "accepted"]
        assert [tokens[i]["id"] for i in kept] + [seen["extra"]["id"]] == round.emitted
        siblings += any(seen["parents"].index(seen["parents"][i]) != i for i in kept)
        assert bool(seen["residual"]) == (round.kind == "correction")
    assert siblings > 0


def test_the_residual_of_a_tree_is_what_its_candidates_have_left():
    tried = 0
    for round, seen in described(TREES["tree"]):
        if round.kind == "correction":
            last = [-1, *round.path][-1]
            p, q = round.trace.p[last + 1], None
            for i, parent in enumerate(round.parents):
                if parent == last:
                    q = round.trace.q[i] if q is None else q
                    p = (p - q).clamp(min=0) / (p - q).clamp(min=0).sum()
                    q = torch.where(torch.arange(3) == round.drafted[i], 0, q)
                    q, tried = q / q.sum().clamp(min=1e-9), tried + 1
            same_numbers(seen["residual"], p)
    assert tried > 1


def test_what_was_tested_after_an_end_of_text_does_not_count():
    round, seen = described(ENDED)[-1]
    last = round.path[-1]
    beyond = [test.node for test in round.trace.tests if round.parents[test.node] == last]
    assert round.drafted[last] == 0 and seen["extra"] is None and beyond
    assert {seen["drafted"][i]["verdict"] for i in beyond} == {"not tested"}


@pytest.mark.parametrize("name", GREEDY_TREES)
def test_a_greedy_tree_is_recorded_without_tests(name):
    """A place's candidates are looked at in turn, until one is the target's own choice."""
    verdicts = set()
    for round, seen in described(GREEDY_TREES[name]):
        tokens, here, searching = seen["drafted"], -1, True
        wanted = dict.fromkeys(range(len(tokens)), "not tested")
        while searching:
            choice, searching = round.trace.p[here + 1].argmax().item(), False
            for i in [i for i, parent in enumerate(seen["parents"]) if parent == here]:
                searching = tokens[i]["id"] == choice
                wanted[i] = "accepted" if searching else "rejected"
                if searching:
                    here = i
                    break
        assert [token["verdict"] for token in tokens] == list(wanted.values())
        assert all(token["u"] is None and token["p"] in (0, 1) for token in tokens)
        assert all(token["q"] == round.trace.q[i, token["id"]] for i, token in enumerate(tokens))
        assert seen["residual"] == []
        verdicts |= set(wanted.values())
    assert verdicts == {"accepted", "rejected", "not tested"}


@pytest.mark.parametrize("name", RUNS)
def test_a_recording_is_read_as_the_run_it_was(name, tmp_path):
    recorded(RUNS[name], tmp_path / "run.json")
    run = read_recording(tmp_path / "run.json")
    assert run == Generation([replace(round, trace=None) for round in RUNS[name]], 3)
    assert run.tokens == [token for round in RUNS[name] for token in round.emitted]


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_drawn(name, tmp_path):
    """Every token of the file, at its position, in the mark of its verdict; none hides another.

    All of a round are nearest to it, above its bar; a correction above a token rejected for it.
    """
    told = recorded(RUNS[name], tmp_path / "run.json")
    axes = draw_run(read_recording(tmp_path / "run.json")).axes[0]
    found = {marks.get_label(): marks.get_offsets().tolist() for marks in axes.collections}
    wanted = {fate: [] for fate in found}
    for number, round in enumerate(told["rounds"], start=1):
        places, kept = [], 0
        for i, token in enumerate(round["drafted"]):
            parent = i - 1 if round["parents"] is None else round["parents"][i]
            places.append(1 if parent == -1 else places[parent] + 1)
            wanted[token["verdict"]].append((number, places[i]))
            kept += token["verdict"] == "accepted"
        if round["extra"]:
            above = 0.4 * (round["kind"] == "correction")
            wanted[round["kind"]].append((number, kept + 1 + above))
    drawn = {fate: sorted((math.floor(x + 0.5), y) for x, y in marks)
             for fate, marks in found.items()}
    assert drawn == {fate: sorted(places) for fate, places in wanted.items()}
    points = [tuple(point) for marks in found.values() for point in marks]
    assert len(set(points)) == len(points)
    assert all(abs(x - math.floor(x + 0.5)) < 0.4 for x, _ in points)
    assert {(x, y) for x, y in found["correction"]} <= {(x, y + 0.4) for x, y in found["rejected"]}


def test_a_round_without_a_trace_cannot_be_recorded():
    with pytest.raises(ValueError, match="trace=True"):
        describe_round(chain_of(UNCHANGED, trace=False)[0], Letters())


SAMPLED = ["--temperature", 0.8, "--seed", 3]


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    ["--temperature", 0, "--gamma", 3], ["--max-new-tokens", 1], SAMPLED, ["--tree", "3x2"],
    [*SAMPLED, "--draft", "lookup"], [*SAMPLED, "--coupling", "gumbel"], [*SAMPLED, "--no-cache"],
    [*SAMPLED, "--rule", "block"], [*SAMPLED, "--tree", "3x2"], [*SAMPLED, "--tree", "2,2,1"],
    [*SAMPLED, "--tree", "2x2", "--coupling", "gumbel"]])
def test_a_recording_holds_the_run(generate, tmp_path, options):
    file = tmp_path / "run.json"
    answer = generate("--max-new-tokens", 12, "--mode", "speculative", "--json",
                      "--record", file, *options)
    assert answer.code == 0, answer.err
    wanted = json.loads(answer.out)["speculative"]
    run = read_recording(file)
    assert run.tokens == wanted["tokens"]
    clocks = {"prefill_seconds": wanted["stats"]["prefill_seconds"]}  # null where no cache is
    assert run.stats() | clocks == wanted["stats"] | clocks
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", [
    "", "no JSON", "[" * 10**5, "[]", "null", "{}", '{"recording": 2}',
    '{"recording": 2, "rounds": [{}]}',
    '{"recording": 2, "gamma": 4, "rounds": [{"drafted": 3}]}', "\ud800"])
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path, text):
    file = tmp_path / "run.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"run\.json is no recording; .*--record FILE"):
        read_recording(file)


SPOILT = {
    "kind": ["bonus", "x", None], "gamma": [1, -1, 1025, 3.5],
    "prompt": [None, {}, [{"id": 1}], [3]],
    "settings": [None, []], "parents": [[], {}, [-1, 0, 0], 3], "block": [None, 1, "yes", True],
    "extra": [None, {}, {"id": -1}, {"id": 1.5}, {"id": True}, {"id": 1}, 3],
    "drafted": [[], {}, [{"id": "x"}], [3]], "residual": [None, {}, [{"id": 1, "text": "a"}], [3]],
    "target_cache": [[1], [1, 2, 3], [0, "x"], None], "draft_cache": [[], [1], 3, [1, -1]],
    "finish_reason": ["x", 3, []], "seconds": [None, "1", math.nan, -1, True],
    "phase_seconds": [None, {"draft": "x"}, [1]], "prefill_seconds": ["x", math.inf]}
OF_A_TOKEN = {"id": [-1, 1.5, True, None, "1"], "text": [None, 3], "q": [None, -1, math.nan, "1"],
              "p": [None, True], "u": ["x", -1], "verdict": ["bonus", None, 3]}
OF_A_BLOCK = {"P": [None, -1, "x"], "h": [None, math.inf]}


def test_a_recording_is_read_as_a_browser_reads_it(tmp_path):
    """A mark that some editors begin with is no part of it; 3.0 is 3; what is not UTF-8 is none."""
    file = tmp_path / "run.json"
    recorded(CHAINS["one by one"], file)
    run, text = read_recording(file), file.read_bytes()
    for same in (b"\xef\xbb\xbf" + text, text.replace(b'"gamma": 3', b'"gamma": 3.0')):
        assert same != text
        file.write_bytes(same)
        assert read_recording(file) == run
        assert type(read_recording(file).gamma) is int
    for spoilt in (text.replace(b'"text": "a"', b'"text": "\xff"'),
                   text.replace(b'"settings": {}', b'"settings": {"seed": NaN}'),
                   text.replace(b'"gamma": 3', b'"gamma": ' + b"9" * 400)):
        assert spoilt != text
        file.write_bytes(spoilt)
        with pytest.raises(ValueError, match="is no recording"):
            read_recording(file)


def refused(file, told):
    file.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ValueError, match=r"run\.json is no recording") as error:
        read_recording(file)
    return "\n" not in str(error.value)


@pytest.mark.parametrize("name, value", [(name, v) for name in SPOILT for v in SPOILT[name]])
def test_a_recording_with_something_else_in_it_is_refused(name, value, tmp_path):
    told = recorded(CHAINS["one by one"], tmp_path / "run.json")
    spoilt = next(r for r in told["rounds"] if r["kind"] == "correction")
    (told if name in ("gamma", "prompt", "settings") else spoilt)[name] = value
    assert refused(tmp_path / "run.json", told)


@pytest.mark.parametrize("name", RUNS)
def test_a_recording_with_another_token_in_it_is_refused(name, tmp_path):
    for field, values in (OF_A_TOKEN | (OF_A_BLOCK if name == "block" else {})).items():
        for value in values:
            told = recorded(RUNS[name], tmp_path / "run.json")
            told["rounds"][1]["drafted"][1][field] = value
            assert refused(tmp_path / "run.json", told), (field, value)


@pytest.mark.parametrize("name", RUNS)
def test_a_recording_with_other_verdicts_is_refused(name, tmp_path):
    """Of a block one token more or less could have been kept: that would be a round, too."""
    n = RUNS[name][0].accepted
    for i, token in enumerate(RUNS[name][0].verdicts):
        could = {"accepted", "rejected"} if name == "block" and i in (n - 1, n) else {token}
        for verdict in {"accepted", "rejected", "not tested"} - could:
            told = recorded(RUNS[name], tmp_path / "run.json")
            told["rounds"][0]["drafted"][i]["verdict"] = verdict
            assert refused(tmp_path / "run.json", told), (i, verdict)


@pytest.mark.parametrize("name", [*TREES, *GREEDY_TREES])
def test_a_recording_with_other_branches_is_refused(name, tmp_path):
    """A parent that comes later, or is none, or too deep; a sibling that is lost."""
    n = next(n for n, round in enumerate(RUNS[name]) if round.path)
    round = RUNS[name][n]
    spoilt = [round.parents[:-1], [*round.parents, -1], [0] * len(round.parents), "x",
              list(range(-1, len(round.parents) - 1))]
    for i in range(len(round.parents)):
        spoilt += [[*round.parents[:i], wrong, *round.parents[i + 1:]]
                   for wrong in (-2, i, i + 1, 0.5, True, None, "0")]
    for i in round.path:
        spoilt += [[*round.parents[:i], wrong, *round.parents[i + 1:]]
                   for wrong in range(-1, i) if wrong != round.parents[i]]
    for parents in spoilt:
        told = recorded(RUNS[name], tmp_path / "run.json")
        told["rounds"][n]["parents"] = parents
        assert refused(tmp_path / "run.json", told), parents
    told = recorded(RUNS[name], tmp_path / "run.json")
    del told["rounds"][n]["drafted"][-1]
    assert refused(tmp_path / "run.json", told)


@pytest.mark.parametrize("version", [1, 7])
def test_another_version_is_named(version, tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"recording": version, "gamma": 4, "rounds": [{}]}))
    with pytest.raises(ValueError, match=f"of version {version}, but this program reads version 2"):
        read_recording(file)
    assert VERSION == 2


def test_a_folder_that_is_not_there_is_said_before_the_run(generate, tmp_path):
    answer = generate("--record", tmp_path / "none" / "run.json")
    assert "there is no folder for --record" in one_line(answer)


def test_a_run_without_rounds_is_no_recording(generate, tmp_path):
    file = tmp_path / "run.json"
    answer = generate("--max-new-tokens", 0, "--record", file)
    assert "nothing to record" in one_line(answer) and not file.exists()
    file.write_text('{"recording": 2, "gamma": 4, "prompt": [], "settings": {}, "rounds": []}')
    with pytest.raises(ValueError, match="is no recording"):
        read_recording(file)


def test_the_prompt_is_not_overwritten(generate, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("Once upon a time")
    answer = generate("--prompt-file", file, "--record", tmp_path / "." / "prompt.txt")
    assert "--record would overwrite the prompt" in one_line(answer)
    assert file.read_text() == "Once upon a time"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_recording_that_cannot_be_written_loses_nothing_else(generate):
    answer = generate("--max-new-tokens", 3, "--mode", "speculative", "--json",
                      "--record", "/dev/full")
    assert answer.code == 1 and "No space left" in answer.err
    assert len(json.loads(answer.out)["speculative"]["tokens"]) == 3


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
