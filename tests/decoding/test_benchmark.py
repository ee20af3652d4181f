"""The benchmark: the numbers of a run, rows on the disk, checks, tables, plots, refusals."""
import json
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from decoding import GREEDY, Sampling, autoregressive
from decoding.acceptance import accept_sampled
from decoding.bench import costs, measure, plots, rules
from decoding.bench.arms import Arm, Task, all_arms, all_tasks, baseline_of
from decoding.bench.costs import Costs, measure_costs, noise_free_alpha, phase_seconds
from decoding.bench.prompts import DEFAULT, default_prompts, read_prompts
from decoding.bench.rows import IDENTITY, Rows, read_rows
from decoding.bench.summary import best_gamma_line, report
from decoding.bench.tables import best_gamma, by_gamma, by_prompt
from decoding.benchmark import main
from decoding.proof.enumerate import distribution_of
from decoding.proof.reference import plain_probs
from decoding.proof.toys import MemorylessModel, Spy, tiny_pair
from decoding.result import Generation, Round
from decoding.speculative import speculative_rounds
from model import GPT2
from tests.commands import N_CTX, PressesCtrlC, run_script, write_pair
from tests.decoding.test_compare import tied_model

SHORT = ["--gammas", "1", "3", "--lengths", "6", "--temperatures", "0", "1", "--repeats", "2"]
COSTS = Costs(10, target=[0.10, 0.11, 0.12, 0.15, 0.2], draft=[0.02] * 5)
SETTINGS = {"target": "large", "draft": "small", "dtype": "float32", "device": "cpu", "threads": 2,
            "layout": "plain", "draft_layout": "plain", "head": "TiedHead",
            "draft_head": "TiedHead", "seed": 0, "end_of_text": "off", "processor": "an abacus",
            "torch": "2", "python": "3"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    # --temperature 0 is for the other program
    return write_pair(tmp_path_factory.mktemp("pair"))[:-2]


@pytest.fixture
def prompts(tmp_path):
    (tmp_path / "prompts.txt").write_text("=== story\nOnce\n=== song\nla la\nla\n",
                                          encoding="utf-8")
    return ["--prompts", str(tmp_path / "prompts.txt")]


@pytest.fixture
def no_plots(monkeypatch):
    """For tests that are not about plots, which take a second."""
    monkeypatch.setattr(plots, "write_plots", lambda *_: [])


def run(capsys, *arguments):
    """(exit code, stdout, stderr) of the program, run in this process."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # argparse's way to end
        code = stop.code
    return code, *capsys.readouterr()


def a_round(drafted, accepted, extra, kind, seconds, finish_reason=None, **phases):
    return Round(drafted, accepted, extra, kind, (0, 0), None, finish_reason, seconds,
                 phase_seconds=phases)


def hand_made():
    """Four rounds of gamma 3.

    One keeps all, one keeps one of three, one is capped at one by the budget, one ends in a cut.
    """
    return Generation([a_round([1, 2, 3], 3, 4, "bonus", 0.5),
                       a_round([1, 2, 3], 1, 9, "correction", 0.3),
                       a_round([1], 1, 2, "bonus", 0.2),
                       a_round([1, 0, 3], 2, None, "none", 0.4, "eos")], 3)


def a_row(**changes):
    task, arm = Task("story", (1, 2), 6, 0.0), Arm(3)
    row = measure.identity(arm, task, 0) | measure.numbers(hand_made(), 0.8, COSTS)
    row |= {"settings": SETTINGS, "checked": True, "first_difference": None}
    return row | measure.gains(row, None) | changes


# ---- the numbers of one run ----

def test_numbers_of_hand_made_rounds():
    row = measure.numbers(hand_made(), 0.8, COSTS)
    counts = [row[name] for name in ("rounds", "new_tokens", "drafted", "accepted", "tested")]
    assert counts == [4, 10, 10, 7, 8]
    assert row["tested_by_position"] == [4, 3, 1] and row["accepted_by_position"] == [4, 2, 1]
    assert row["full_rounds"] == 2  # neither the capped round nor the cut one
    assert row["tokens_per_full_round"] == 3  # (4 + 2) / 2
    assert row["full_rounds_tokens_per_second"] == pytest.approx(6 / 0.8)
    assert row["tokens_per_second"] == pytest.approx(10 / 1.4)
    assert sum(row["tested_by_position"]) == row["tested"]
    assert sum(row["accepted_by_position"]) == row["accepted"]


def test_predictions_are_the_papers_formula():
    row = measure.numbers(hand_made(), 0.8, COSTS)
    expected = 1 + 0.8 + 0.8**2 + 0.8**3
    assert row["c"] == pytest.approx(0.2) and row["v"] == pytest.approx(1.5)
    assert row["predicted_speedup_paper"] == pytest.approx(expected / (3 * 0.2 + 1))
    assert row["predicted_speedup"] == pytest.approx(expected / (3 * 0.2 + 1.5))


def test_where_there_is_nothing_to_divide_there_is_no_number():
    one_token = Generation([a_round([], 0, 5, "bonus", 0.1, "length")], 3)
    row = measure.numbers(one_token, 1.0, None)
    for name in ("accepted_per_tested", "tokens_per_full_round", "full_rounds_tokens_per_second",
                 "predicted_speedup", "c"):
        assert row[name] is None
    assert measure.gains(row, None)["speedup"] is None


def test_a_speed_up_is_the_quotient_of_two_rows():
    row = a_row(tokens_per_second=30.0, full_rounds_tokens_per_second=36.0)
    gains = measure.gains(row, a_row(gamma=0, tokens_per_second=20.0))
    assert gains["speedup"] == 1.5 and gains["full_rounds_speedup"] == 1.8
    assert gains["latency_reduction_percent"] == pytest.approx(100 / 3)


@pytest.mark.parametrize("name, other",
                         [("prompt_sha256", "x"), ("length", 7), ("temperature", 1.0),
                          ("repeat", 1), ("cache", "none"),
                          *(("settings", SETTINGS | {name: "other"}) for name in SETTINGS)])
def test_rows_are_compared_only_if_all_else_is_the_same(name, other):
    row, plain = a_row(), a_row(gamma=0)
    assert baseline_of(row, [a_row(), plain]) is plain
    assert baseline_of(row, [a_row(), plain | {name: other}]) is None


# ---- costs and alpha ----

def test_alpha_is_the_mean_overlap_along_the_text():
    target, draft = tiny_pair()
    for sampling in (Sampling(), Sampling(0.7), GREEDY):
        new = autoregressive(target, [3, 1], 20, sampling=sampling,
                             generator=torch.Generator().manual_seed(2)).tokens
        overlaps = []
        for i in range(len(new)):
            text = torch.tensor([[3, 1, *new[:i]]])
            p, q = (plain_probs(model.forward(text, last=1)[0, 0].tolist(), sampling)
                    for model in (target, draft))
            overlaps.append(sum(map(min, p, q)))
        found = noise_free_alpha(target, draft, [3, 1], new, sampling)
        assert found == pytest.approx(sum(overlaps) / 20)
    assert noise_free_alpha(target, draft, [3, 1], [], GREEDY) is None
    assert noise_free_alpha(target, target, [3, 1], new, Sampling()) == pytest.approx(1)


def test_costs_are_medians_of_warm_forwards(monkeypatch):
    """By a clock on which a forward over n tokens takes n seconds.

    Four times in eight, the first among them, it takes a minute.
    """
    target, draft = tiny_pair(n_ctx=20)
    now, passes = [0.0], Counter()
    monkeypatch.setattr(costs, "perf_counter", lambda: now[0])

    class Slow(Spy):
        def forward(self, tokens, cache=None, last=None):
            T = tokens.shape[1]
            now[0] += T if 1 <= passes[T] <= 4 else 60
            passes[T] += 1
            return super().forward(tokens, cache, last)

    found = measure_costs(Slow(target), draft, 5, held=128)
    assert found.held == 15  # as much as fits beside 5 more
    assert found.target == [1, 2, 3, 4, 5] and found.v(3) == 4 and len(found.draft) == 5


def test_phases_are_those_of_rounds_with_k_equal_to_gamma():
    def traced(k, draft):
        return a_round([0] * k, k, 1, "bonus", 0.5, draft=draft, verify=1.0, accept=0.1)

    rounds = [traced(2, 3.0), traced(2, 4.0), traced(2, 9.0), traced(1, 99.0)]
    assert phase_seconds(rounds, 2)["draft"] == 4.0
    assert phase_seconds(rounds[3:], 2) is None


# ---- arms, prompts, rows ----

def test_arms_and_tasks():
    assert all_arms([1, 4], no_cache_arms=False) == [Arm(0), Arm(1), Arm(4)]
    arms = all_arms([2], no_cache_arms=True)
    assert arms == [Arm(0), Arm(0, "none"), Arm(2), Arm(2, "target"), Arm(2, "draft"),
                    Arm(2, "none")]
    more = all_arms([1, 2], False, ["token", "block"], ["3x2", "2,1"])
    assert more == [Arm(0), Arm(1), Arm(2), Arm(1, way="block"), Arm(2, way="block"),
                    Arm(3, way="3x2"), Arm(2, way="2,1")]
    assert [arm.name for arm in more[2:5:2]] == ["gamma 2", "gamma 2, block rule"]
    assert more[-1].name == "tree 2,1" and not Arm(2, way="block").fits(0.0)
    tasks = all_tasks({"a": [1], "b": [2]}, [5, 6], [0.0, 1.0])
    assert len(tasks) == 8 and tasks[0] == Task("a", (1,), 5, 0.0)


def test_default_prompts_are_of_different_kinds():
    kinds = default_prompts("gpt2-large")
    assert {"story", "dialogue", "list", "song", "exposition", "code"} <= kinds.keys()
    assert len(default_prompts("tales-large")) >= 6 and "code" not in default_prompts("tales-large")
    assert kinds["code"].startswith("def ")
    assert all(text == text.strip("\n") for text in kinds.values())
    assert all(text in DEFAULT.read_text(encoding="utf-8") for text in kinds.values())  # used whole


@pytest.mark.parametrize("content, words",
                         [("", "at least one"), (" \n", "at least one"),
                          ("=== a\n\n", "no text for the prompt 'a'"),
                          ("=== a\nx\n=== a\ny", "a kind of its own"),
                          ("===\nx", "a kind of its own"), ("x\n=== a\ny", "before its first"),
                          (b"\xff", "not UTF-8")])
def test_prompts_that_make_no_sense(tmp_path, content, words):
    path = tmp_path / "p.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=words):
        read_prompts(path)


def test_a_file_without_kinds_is_one_prompt(tmp_path):
    (tmp_path / "limerick.txt").write_text("There was\nan old man\n", encoding="utf-8")
    assert read_prompts(tmp_path / "limerick.txt") == {"limerick": "There was\nan old man"}


def test_rows_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = Rows(path, SETTINGS)
    for repeat in range(3):
        rows.append(a_row(repeat=repeat))
        assert read_rows(path) == rows  # on the disk at once
    with path.open("a") as file:
        file.write('{"gamma": 3, "cac')  # the machine went down here
    assert Rows(path, SETTINGS) == rows
    Rows(path, SETTINGS).append(a_row(repeat=3))
    assert [row["repeat"] for row in read_rows(path)] == [0, 1, 2, 3]


def test_rows_of_other_settings_and_other_files_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    Rows(path, SETTINGS).append(a_row())
    with pytest.raises(ValueError, match="threads 2, and now it is 4"):
        Rows(path, SETTINGS | {"threads": 4})
    for content, words in (("no\n", "line 1 is not JSON"), ("[]\n", "line 1 is not a row"),
                           ("{}\n", "line 1 is not a row")):
        path.write_text(content)
        with pytest.raises(ValueError, match=words):
            Rows(path, SETTINGS)


# ---- the program ----

def test_a_whole_run(pair, prompts, tmp_path, capsys):
    code, out, err = run(capsys, *pair, *prompts, *SHORT, "--out", tmp_path / "results")
    assert code == 0, err
    rows = read_rows(tmp_path / "results" / "rows.jsonl")
    assert len(rows) == 3 * 2 * 2 * 2  # arms, prompts, temperatures, repeats
    assert [row["gamma"] for row in rows[:6]] == [0, 1, 3, 0, 1, 3]  # in turn
    assert {(row["kind"], row["prompt_tokens"]) for row in rows} == {("story", 4), ("song", 8)}
    assert {row["settings"]["end_of_text"] for row in rows} == {"off"}
    assert {row["new_tokens"] for row in rows} == {6}
    for row in rows:
        assert row["new_tokens"] == row["accepted"] + row["corrections"] + row["bonuses"]
        if row["gamma"] > 0:
            same = [name for name in IDENTITY if name != "gamma"]
            base = next(r for r in rows if r["gamma"] == 0 and all(r[n] == row[n] for n in same))
            assert row["speedup"] == row["tokens_per_second"] / base["tokens_per_second"]
            assert row["predicted_speedup"] > 0 and 0 <= row["alpha"] <= 1
    assert (tmp_path / "results" / "tables.md").read_text(encoding="utf-8") == out[:-1]
    assert "16 runs" not in out and "12 runs compared with the plain loop's, 12 identical" in out
    for word in ("| story | 4 | 0 |", "lowest to highest run", "T(n)/T(1)", "end-of-text off",
                 "--gammas 1 3", "Speculation loses on"):
        assert word in out
    assert "nan" not in out
    pngs = sorted((tmp_path / "results").glob("*.png"))
    assert len(pngs) == 6
    assert all(png.read_bytes().startswith(b"\x89PNG") for png in pngs)
    assert all(png.stat().st_size > 5000 for png in pngs)


def test_an_interrupted_run_goes_on_where_it_was(pair, prompts, tmp_path, capsys, monkeypatch,
                                                 no_plots):
    arguments = [*pair, *prompts, *SHORT, "--out", tmp_path / "r"]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", PressesCtrlC("\r7 of 24 runs"))
        code, out, _ = run(capsys, *arguments)
        assert code == 130 and out == "" and "--resume" in sys.stderr.getvalue().splitlines()[-1]
    first = (tmp_path / "r" / "rows.jsonl").read_text()
    assert first.count("\n") == 7
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "has rows already; go on with --resume" in err
    code, out, _ = run(capsys, *arguments, "--resume")
    assert code == 0
    whole = (tmp_path / "r" / "rows.jsonl").read_text()
    assert whole.startswith(first)
    rows = read_rows(tmp_path / "r" / "rows.jsonl")
    assert len({tuple(row[n] for n in IDENTITY) for row in rows}) == len(rows) == 24
    # also over a plain run from before
    assert all(row["speedup"] is not None for row in rows if row["gamma"] > 0)
    code, _, _ = run(capsys, *arguments, "--resume", "--repeats", "3")
    assert code == 0 and len(read_rows(tmp_path / "r" / "rows.jsonl")) == 36
    code, _, err = run(capsys, *arguments, "--resume", "--seed", "1")
    assert code == 2 and "measured with seed 0, and now it is 1" in err


def test_greedy_ids_that_differ_fail_the_run_with_the_position(pair, prompts, tmp_path, capsys,
                                                               monkeypatch):
    right = measure.speculative_sampling

    def wrong(*given, **options):
        g = right(*given, **options)
        last = g.rounds[-1]
        return Generation([*g.rounds[:-1], replace(last, extra=(last.extra + 1) % 257)], g.gamma)

    monkeypatch.setattr(measure, "speculative_sampling", wrong)
    code, out, err = run(capsys, *pair, *prompts, *SHORT, "--out", tmp_path / "r")
    assert code == 1 and out == ""
    line = err.splitlines()[-1]
    for words in ("gamma 1, prompt story, 6 tokens", "difference at new token 5", "DIFFERENT"):
        assert words in line
    # no row for a run that is wrong
    assert [row["gamma"] for row in read_rows(tmp_path / "r" / "rows.jsonl")] == [0]


class Unsteady(GPT2):
    """Rounds several tokens in another way than one: of two tied tokens it then takes the other."""

    def forward(self, tokens, cache=None, last=None, place=None):
        logits = super().forward(tokens, cache, last, place)
        logits[..., 5] += 2e-6 * (tokens.shape[1] > 1)
        return logits


def test_a_near_tie_is_noted_and_the_run_goes_on():
    draft = tied_model(gap=0)
    target = Unsteady(draft.config).requires_grad_(False)
    target.load_state_dict(draft.state_dict())
    pair, rows = measure.Pair(target, draft, eos=None, seed=0, name=str), []
    for row in measure.measure_task(pair, Task("story", (1, 2), 6, 0.0), [Arm(0), Arm(3)], 2, rows,
                                    SETTINGS, COSTS):
        rows.append(row)
    differences = [row["first_difference"] for row in rows if row["gamma"] == 3]
    assert len(rows) == 4 and len(differences) == 2
    for found in differences:
        assert (found["index"], found["baseline"], found["speculative"]) == (0, 4, 5)
        assert found["gap"] <= found["limit"] and found["verdict"] == "near-tie"
    assert "2 part from it at a near-tie" in report(rows, COSTS, "x")


def test_runs_of_one_token(pair, prompts, tmp_path, capsys):
    code, out, err = run(capsys, *pair, *prompts, "--gammas", "2", "--lengths", "1",
                         "--repeats", "1", "--out", tmp_path / "r")
    assert code == 0, err
    assert "n/a" in out and "nan" not in out.lower()
    assert "NaN" not in (tmp_path / "r" / "rows.jsonl").read_text()
    assert len(list((tmp_path / "r").glob("*.png"))) == 6


def test_rules_and_trees_have_a_table_of_their_own(pair, prompts, tmp_path, capsys, no_plots):
    code, out, err = run(capsys, *pair, *prompts, *SHORT, "--rules", "block", "token",
                         "--trees", "3x2", "2,1", "--repeats", "1", "--out", tmp_path / "r")
    assert code == 0, err
    rows = read_rows(tmp_path / "r" / "rows.jsonl")
    counts = Counter((row["way"], row["temperature"]) for row in rows)
    # of each prompt: the plain loop and two gammas; the block rule where it differs; each tree
    assert counts == {("token", 0.0): 6, ("token", 1.0): 6, ("block", 1.0): 4,
                      ("3x2", 0.0): 2, ("3x2", 1.0): 2, ("2,1", 0.0): 2, ("2,1", 1.0): 2}
    for row in rows:
        one_by_one = row["way"] == "token" and row["gamma"] > 0
        assert (row["alpha"] is not None) == (row["predicted_speedup"] is not None) == one_by_one
        assert (row["speedup"] is not None) == (row["gamma"] > 0)
        if row["way"] == "block":
            assert row["accepted_per_tested"] is None and row["tested"] == row["drafted"]
    table = out.partition("## Speed-up by rule and tree")[2].partition("##")[0]
    assert "\n| 1 | block | 3 | " in table and "\n| 0 | 3x2 | 3 | " in table
    assert "\n| 1 | 2,1 | 2 | " in table and "\n| 1 | token | 3 | " in table
    assert table.count("block rule:") == 1 and "temperature 1, block rule: " in table
    others = out.replace(table, "")
    assert "block |" not in others and "3x2 |" not in others  # and in no other table
    # by_gamma has the rows of the token rule alone
    (line,) = [line for line in others.splitlines() if line.startswith("| 1 | 3 | ")]
    assert line.endswith("| 2 |")


def test_what_other_rules_keep_of_the_same_drafts():
    """By the published numbers of a pair without memory, and a generator that tries everything."""
    large, small = MemorylessModel([0.6, 0.4]), MemorylessModel([0.8, 0.2])
    expected = [0.0, 0.0]

    def program(generator):
        round = next(speculative_rounds(large, small, [0], 3, gamma=2, rule=accept_sampled,
                                        sampling=Sampling(), generator=generator, trace=True))
        return (*round.drafted, *rules.expected_kept(round))

    for (_, _, token, block), chance in distribution_of(program).items():
        expected = [expected[0] + chance * token, expected[1] + chance * block]
    assert [1 + kept for kept in expected] == pytest.approx([2.44, 2.48], abs=1e-12)


def test_the_tables_of_other_rules(monkeypatch, capsys):
    models = dict(zip((rules.TARGET, rules.DRAFT), tiny_pair()))
    monkeypatch.setattr(rules, "load_model", models.get)
    monkeypatch.setattr(rules, "default_prompts", lambda _: {"one": "", "two": ""})
    monkeypatch.setattr(rules, "load_tokenizer", lambda _: SimpleNamespace(encode=lambda _: [1, 2]))
    monkeypatch.setattr(sys, "argv", ["", "--gammas", "3", "--temperatures", "1", "--tokens", "40"])
    assert rules.main() == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in lines[2].split("|")]
    assert cells[1:3] == ["1", "3"] and float(cells[7]) > float(cells[6]) > 1
    drawn, chosen = ([float(cell) for cell in line.split("|")[2:-1]] for line in lines[-2:])
    assert drawn == sorted(drawn) and chosen == sorted(chosen) and chosen[1] < drawn[1]
    monkeypatch.setattr(sys, "argv", ["", "--tokens", "300"])
    assert rules.main() == 2
    assert "--tokens 300 does not fit" in capsys.readouterr().err


def test_without_caches_only_like_is_compared_with_like(pair, prompts, tmp_path, capsys, no_plots):
    code, out, _ = run(capsys, *pair, *prompts, "--gammas", "2", "--lengths", "5", "--repeats", "1",
                       "--temperatures", "0", "--no-cache-arms", "--out", tmp_path / "r")
    assert code == 0 and "## With and without a key/value cache" in out
    rows = [row for row in read_rows(tmp_path / "r" / "rows.jsonl") if row["gamma"] > 0]
    assert {row["cache"] for row in rows} == {"both", "target", "draft", "none"}
    assert {row["cache"] for row in rows if row["speedup"] is not None} == {"both", "none"}
    assert {row["cache"] for row in rows if row["v"] is not None} == {"both"}
    assert "| 0 | 2 | target | " in out and " | n/a | 2 |" in out


def test_end_of_text_stops_a_run_if_asked_to(pair, prompts, tmp_path, capsys, no_plots):
    arguments = [*pair, *prompts, "--gammas", "2", "--lengths", "40", "--repeats", "3",
                 "--temperatures", "1"]
    code, out, _ = run(capsys, *arguments, "--eos", "--out", tmp_path / "r")
    rows = read_rows(tmp_path / "r" / "rows.jsonl")
    assert code == 0 and "end-of-text stops the run" in out
    assert {row["settings"]["end_of_text"] for row in rows} == {"stops the run"}
    assert {row["finish_reason"] for row in rows} == {"eos", "length"}
    assert all(row["new_tokens"] == 40 for row in rows if row["finish_reason"] == "length")


def test_tune_says_which_gamma_and_writes_nothing(pair, prompts, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *pair, *prompts, "--tune", "--gammas", "1", "2", "--lengths", "8")
    assert code == 0, err
    assert out.startswith("temperature 0: ") and "gamma" in out and "tokens/s against" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prompts.txt"]


def test_the_best_gamma_is_the_fastest_and_0_where_all_lose():
    rows = [a_row(gamma=gamma, speedup=speedup, tokens_per_second=10 * speedup,
                  baseline_tokens_per_second=10.0)
            for gamma, speedup in ((1, 1.2), (2, 1.5), (4, 1.4))]
    assert best_gamma(rows, 0.0) == 2
    assert "best gamma 2, 1.50 times as fast" in best_gamma_line(rows, 0.0)
    slow = [row | {"speedup": row["speedup"] / 2} for row in rows]
    line = best_gamma_line(slow, 0.0)
    assert "speculation loses" in line and line.endswith("Take gamma 0")
    assert best_gamma(rows, 1.0) is None and "nothing to compare" in best_gamma_line(rows, 1.0)


def test_tables_take_medians_of_repeats_and_means_of_tests():
    def at(length, repeat, speedup):
        return a_row(length=length, repeat=repeat, speedup=speedup, baseline_tokens_per_second=10.0)

    rows = [at(6, 0, 1.0), at(6, 1, 1.1), at(6, 2, 9.0), at(12, 0, 2.0), at(12, 1, 2.1),
            at(12, 2, 2.2)]
    line = by_gamma(rows).splitlines()[2].split(" | ")
    assert line[2] == "1.60" and line[-1] == "2 |"  # the mean of 1.1 and 2.1, over two tests
    line = by_prompt(rows).splitlines()[2].split(" | ")
    assert line[:6] == ["| large / small", "story", "2", "0", "3", "42/48 = 0.88"]
    assert line[-2:] == ["1.60", "1.00–9.00 |"]
    assert "Speculation loses on none" in report(rows, COSTS, "x")
    assert "story at temperature 0 with γ = 3 (0.90)" in report([at(6, 0, 0.9)], COSTS, "x")


# arguments, and words of the one line that says why
REFUSED = [(["--gammas", "0"], "--gammas: must be a whole number"),
           (["--gammas", "x"], "'x'"),
           (["--gammas"], "at least one argument"), (["--lengths", "0"], "--lengths: must be"),
           (["--temperatures", "nan"], "'nan'"), (["--repeats", "0"], "--repeats: must be"),
           (["--target", "tales"], "unknown model 'tales'"),
           (["--draft", "./nowhere"], "there is no folder"),
           (["--target", "gpt2"], "no draft is known for gpt2"),
           (["--draft", "gpt2"], "different vocabularies"),
           (["--lengths", "1000"], "--lengths 1000 does not fit"),
           (["--gammas", "4", "1000"], "--gammas 1000 does not fit"),
           (["--prompts", "nowhere.txt"], "cannot read the prompts nowhere.txt"),
           (["--prompts", "EMPTY"], "at least one prompt"),
           (["--out", "FILE/results"], "cannot write into"),
           (["--tune", "--out", "r"], "--out does nothing with --tune"),
           (["--rules", "tree"], "'tree'"), (["--trees", "0x2"], "each number is at least 1"),
           (["--tune", "--trees", "2x2"], "--trees does nothing with --tune"),
           (["--tune", "--resume"], "--resume does nothing with --tune"),
           (["--gamma", "3"], "unrecognized arguments")]


def test_refusals_take_one_line_and_no_torch(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    script = """
import contextlib, io, json, sys
from decoding.benchmark import main
def ask(arguments):
    said = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code
    return code, *(stream.seek(0) or stream.read() for stream in said)
answers = [ask(arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([answers, "torch" in sys.modules]))
"""
    paths = {"EMPTY": str(tmp_path / "empty.txt"),
             "FILE/results": str(tmp_path / "empty.txt" / "results")}
    asked = [[paths.get(argument, argument) for argument in arguments] for arguments, _ in REFUSED]
    done = run_script(script, json.dumps([["--help"], *asked]))
    (help_, *answers), torch_was_imported = json.loads(done.stdout)
    assert help_[0] == 0 and "--no-cache-arms" in help_[1] and not torch_was_imported, done.stderr
    for (code, out, err), (arguments, words) in zip(answers, REFUSED, strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, (arguments, err)


def test_a_run_that_ends_before_a_measurement_leaves_nothing(pair, prompts, tmp_path, capsys,
                                                             monkeypatch):
    broken = shutil.copytree(pair[1], tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"")
    arguments = [*pair, *prompts, *SHORT, "--out", tmp_path / "new" / "r"]
    code, out, err = run(capsys, *arguments, "--target", broken)
    assert (code, out, err.count("\n")) == (2, "", 1) and "is empty; fetch it again" in err
    assert not (tmp_path / "new").exists()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", PressesCtrlC("measuring the cost of one forward"))
        code, out, _ = run(capsys, *arguments)
        last = sys.stderr.getvalue().splitlines()[-1]
    assert (code, out) == (130, "") and last == "python -m decoding.benchmark: interrupted"
    assert not (tmp_path / "new").exists()


def test_a_disk_that_runs_full_leaves_whole_files(pair, prompts, tmp_path, capsys, monkeypatch,
                                                  no_plots):
    arguments = [*pair, *prompts, "--gammas", "1", "--lengths", "4", "--temperatures", "0",
                 "--repeats", "1", "--out", tmp_path / "r", "--resume"]
    assert run(capsys, *arguments)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}

    def full(path, text, **_):
        with path.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = run(capsys, *arguments)
    assert code == 1 and "No space left on device" in err.splitlines()[-1]
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before


def test_a_prompt_must_fit_beside_the_longest_run(pair, prompts, tmp_path, capsys, no_plots):
    # the song has 8 tokens
    for option, most in (("--lengths", N_CTX - 8), ("--gammas", N_CTX - 9)):
        code, _, err = run(capsys, *pair, *prompts, "--lengths", "2", option, most + 1,
                           "--out", tmp_path / "r")
        words = f"{option} {most + 1} does not fit: the prompt 'song' has 8 tokens"
        assert code == 2 and words in err
    assert not (tmp_path / "r").exists()
    code, _, err = run(capsys, *pair, *prompts, "--gammas", "1", "--temperatures", "0",
                       "--lengths", N_CTX - 8, "--repeats", "1", "--out", tmp_path / "r")
    assert code == 0, err


@pytest.mark.slow
def test_no_display_and_nobodys_matplotlib_is_touched(tmp_path):
    script = """
import sys, matplotlib
from pathlib import Path
from decoding.bench.plots import write_plots
from tests.decoding.test_benchmark import COSTS, a_row
before = dict(matplotlib.rcParams)
files = write_plots(Path(sys.argv[1]), [a_row(gamma=0), a_row(speedup=1.2)], COSTS)
assert len(files) == 6 and all(file.stat().st_size > 5000 for file in files)
assert "matplotlib.pyplot" not in sys.modules and dict(matplotlib.rcParams) == before
"""
    done = run_script(script, str(tmp_path), env={"MPLBACKEND": "tkagg", "PATH": ""})
    assert done.returncode == 0, done.stderr.decode()


def test_time_left_goes_by_tokens_and_cache_policy(monkeypatch):
    from decoding.bench import progress

    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    task = Task("a", (1,), 10, 0.0)
    line = progress.Progress([(arm, task) for arm in (Arm(0), Arm(1, "none")) for _ in range(2)])
    now[0] = 2.0
    line.done("both", 10)
    assert line.seconds_left() == pytest.approx(6)  # three more like it
    now[0] = 12.0
    line.done("none", 10)
    assert line.seconds_left() == pytest.approx(2 + 10)
    assert line.finished == 2
    assert [progress.clock(s) for s in (9, 90, 7200)] == ["9 s", "2 min", "2.0 h"]


def test_without_the_library_transformers_the_comparison_says_so_in_one_line():
    script = """
import sys
sys.modules["transformers"] = None  # as if it were not installed
sys.argv[1:] = []
from decoding.bench.transformers import main
sys.exit(main())
"""
    done = run_script(script)
    assert done.returncode == 1 and done.stdout == b""
    assert done.stderr.count(b"\n") == 1 and b"transformers is not installed" in done.stderr


def test_a_resumed_run_keeps_its_layouts(pair, prompts, capsys, tmp_path, choose, no_plots):
    """Whatever the clock would choose now."""
    arguments = [*pair[:4], *prompts, "--lengths", "4", "--gammas", "1", "--temperatures", "0",
                 "--repeats", "1", "--out", tmp_path / "r"]
    choose("strips", "TurnedHead")
    assert run(capsys, *arguments)[0] == 0
    choose("plain", "TiedHead")
    assert run(capsys, *arguments, "--resume", "--repeats", "2")[0] == 0
    for row in read_rows(tmp_path / "r" / "rows.jsonl"):
        assert row["settings"].items() >= {"layout": "strips", "head": "TurnedHead",
                                           "draft_layout": "strips", "draft_head": "TurnedHead",
                                           }.items()
    code, _, err = run(capsys, *arguments, "--resume", "--layout", "plain")
    assert code == 2 and "layout 'strips', and now it is 'plain'" in err and err.count("\n") == 1
