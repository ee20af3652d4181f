"""`python -m decoding.evaluate`, with models whose right answers are known: they count.

A token is a byte, and after each comes the next one: after "1" the text goes on "23456789:". So
what a program that they complete returns, and which of the tasks below are solved, is known.
"""
import base64
import json
from itertools import combinations
from statistics import fmean

import pytest

from decoding.acceptance import Acceptance
from decoding.bench.counting_gpt2 import write_checkpoint
from decoding.evaluate import main
from decoding.quality import arms, library
from decoding.quality.intervals import mean_of, paired_test
from decoding.quality.options import OWN
from decoding.quality.options import make_parser as options_parser
from decoding.quality.scores import by_problem, rouge
from decoding.quality.tasks import Problem, load_task
from decoding.quality.xsum import REVISION
from tests.weights.test_hub import NO_HUB, hub_server, python

SOLVED = {"return 1": "123456789", "return 4": "456789", "return 5": "5"}  # the last one is not


@pytest.fixture(scope="module")
def counting(tmp_path_factory):
    """The options that name a target that counts, and a draft that often counts wrong."""
    folder = tmp_path_factory.mktemp("counting")
    vocabulary = b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256))
    for name, spoil in (("target", 0.0), ("draft", 0.4)):
        write_checkpoint(folder / name, "tiny", spoil=spoil, noise=0.1, sharpness=2)
        (folder / name / "bytes.tiktoken").write_bytes(vocabulary)
    return ["--target", str(folder / "target"), "--draft", str(folder / "draft"),
            "--layout", "plain", "--device", "cpu"]


def write(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return str(path)


@pytest.fixture
def code(tmp_path):
    """A task like HumanEval, of which two of three problems are solved."""
    return write(tmp_path / "code.jsonl", [
        {"prompt": f"def f():\n    {line}", "entry_point": "f",
         "test": f"def check(f):\n    assert f() == {value}"} for line, value in SOLVED.items()])


@pytest.fixture
def counts(tmp_path):
    return write(tmp_path / "counts.jsonl", [
        {"prompt": "abc", "reference": "defg"}, {"prompt": "x: 5", "reference": "6789"},
        {"prompt": "A", "reference": "not this"}])


@pytest.fixture
def evaluate(counting, capsys):
    def run(*arguments):
        try:
            code = main([*counting, *map(str, arguments)])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()
    return run


def rows_of(folder):
    lines = (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def without_times(rows):
    for row in rows:
        for arm in arms.ARMS:
            row[arm].pop("seconds")
    return rows


# Known scores

def test_two_of_three_programs_are_right(evaluate, code, tmp_path):
    done, out, err = evaluate("--task", code, "--metric", "pass@1", "--stop", ":",
                              "--run-generated-code", "--out", tmp_path / "o")
    assert done == 0
    assert "| pass@1 | 0.667 [0.000, 1.000] | 0.667 [0.000, 1.000] | 0.000 " in out
    assert "3 of 3 greedy texts have identical ids" in out and "generated code runs" in err
    assert (tmp_path / "o" / "table.md").read_text(encoding="utf-8") == out
    rows = rows_of(tmp_path / "o")
    for row, value in zip(rows, ["23456789", "56789", "6789"]):
        for arm in arms.ARMS:
            assert (row[arm]["text"], row[arm]["finish_reason"]) == (value, "stop")
        assert row["plain"]["ids_sha256"] == row["speculative"]["ids_sha256"]
        assert row["speculative"]["rounds"] < row["plain"]["rounds"] == len(value) + 1
        assert 0 < row["speculative"]["accepted"] <= row["speculative"]["drafted"]
    assert [row["plain"]["scores"] for row in rows] == [{"pass@1": 1}, {"pass@1": 1}, {"pass@1": 0}]


@pytest.mark.parametrize("drafting", [["--gamma", "auto"], ["--tree", "2x2"], ["--gamma", 7],
                                      ["--draft", "lookup"]])
def test_every_way_to_draft_scores_the_same(drafting, evaluate, counts):
    done, out, _ = evaluate("--task", counts, "--metric", "exact", "--max-new-tokens", 4, *drafting)
    assert done == 0 and "| exact | 0.667 [" in out
    assert "3 of 3 greedy texts have identical ids" in out


def test_rouge_of_what_is_known(evaluate, tmp_path):
    text = "".join(map(chr, range(ord("x"), ord("~"))))  # one word, then signs
    file = write(tmp_path / "t.jsonl", [{"prompt": "w", "reference": text},
                                        {"prompt": "w", "reference": "xyz abc def"}])
    done, out, _ = evaluate("--task", file, "--metric", "rouge", "--max-new-tokens", 4)
    assert done == 0
    # "xyz": all of the first; of the second one word in three, so 2 * 1 * 1/3 / (1 + 1/3) = 0.5
    assert "| rouge1 | 0.750 [" in out and "| rouge2 | 0.000 [" in out


def test_sampled_answers_are_scored_over_samples(evaluate, code, tmp_path):
    arguments = ("--task", code, "--metric", "pass@1", "--stop", ":", "--run-generated-code",
                 "--temperature", 0.5, "--samples", 3, "--max-new-tokens", 12, "--limit", 1)
    done, out, _ = evaluate(*arguments, "--out", tmp_path / "o")
    assert done == 0 and "1 problems, 3 samples each" in out and "identical" not in out
    rows = rows_of(tmp_path / "o")
    assert [row["sample"] for row in rows] == [0, 1, 2]
    assert all(row["difference"] is None for row in rows)
    again = evaluate(*arguments, "--out", tmp_path / "p")
    assert again[0] == 0 and without_times(rows_of(tmp_path / "p")) == without_times(rows)


# Taking up a run

def test_a_run_that_was_interrupted_is_taken_up(evaluate, counts, tmp_path, monkeypatch):
    arguments = ("--task", counts, "--metric", "exact", "--max-new-tokens", 4, "--temperature", 1,
                 "--samples", 2)
    assert evaluate(*arguments, "--out", tmp_path / "whole")[0] == 0
    right, calls = arms.answer, []

    def answer(*given):
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return right(*given)

    monkeypatch.setattr(arms, "answer", answer)
    done, out, err = evaluate(*arguments, "--out", tmp_path / "o")
    assert (done, out) == (130, "") and "3 of 6 answers were made; 3 rows are in" in err
    file = tmp_path / "o" / "answers.jsonl"
    file.write_bytes(file.read_bytes()[:-7])  # as if it had been killed while writing
    done, *_ = evaluate(*arguments, "--out", tmp_path / "o")
    assert done == 0 and len(calls) == 4 + 4  # two rows were whole
    assert without_times(rows_of(tmp_path / "o")) == without_times(rows_of(tmp_path / "whole"))


def test_answers_can_be_scored_later(evaluate, code, tmp_path, monkeypatch):
    arguments = ("--task", code, "--metric", "pass@1", "--stop", ":", "--out", tmp_path / "o")
    done, out, err = evaluate(*arguments)
    assert done == 0 and "pass@1 |" not in out and "add --run-generated-code" in err
    assert all(row["plain"]["scores"] is None for row in rows_of(tmp_path / "o"))
    assert evaluate(*arguments, "--limit", 1, "--run-generated-code")[0] == 0
    done, out, _ = evaluate(*arguments)  # one row of three has scores
    assert done == 0 and "pass@1" not in out
    monkeypatch.setattr(arms, "answer", None)  # nothing is decoded again
    done, out, _ = evaluate(*arguments, "--run-generated-code")
    assert done == 0 and "| pass@1 | 0.667 [" in out
    assert all(row["plain"]["scores"] is not None for row in rows_of(tmp_path / "o"))


def test_rows_of_other_settings_are_not_mixed(evaluate, counts, tmp_path):
    arguments = ("--task", counts, "--metric", "exact", "--max-new-tokens", 2)
    assert evaluate(*arguments, "--out", tmp_path / "o")[0] == 0
    done, out, err = evaluate(*arguments, "--out", tmp_path / "o", "--gamma", 2)
    assert (done, out) == (2, "") and "was made with gamma 4, and now it is 2" in err


def test_the_clock_may_choose_another_layout(evaluate, counts, tmp_path, choose):
    arguments = ("--task", counts, "--metric", "exact", "--max-new-tokens", 2, "--layout", "auto",
                 "--out", tmp_path / "o")
    for favourite in ("strips", "plain"):
        choose(favourite)
        assert evaluate(*arguments)[0] == 0
        assert {row["settings"]["layout"] for row in rows_of(tmp_path / "o")} == {"strips"}


WRONG = [("problem", 3), ("sample", "0"), ("settings", None), ("difference", 1),
         ("difference", {"index": 1, "verdict": "near-tie", "gap": 0.5, "limit": None}),
         ("difference", {"verdict": "near-tie"}), ("plain", {}), ("speculative", "x"),
         ("scores", 1), ("scores", {}), ("scores", {"exact": "x"}), ("scores", {"other": 1.0}),
         ("scores", None), ("seconds", "x"), ("rounds", 1.5), ("text", None)]


@pytest.mark.slow
@pytest.mark.parametrize("name, value", WRONG)
def test_a_row_with_something_else_in_it_is_named(name, value, evaluate, counts, tmp_path):
    arguments = ("--task", counts, "--metric", "exact", "--max-new-tokens", 2, "--limit", 1,
                 "--out", tmp_path / "o")
    assert evaluate(*arguments)[0] == 0
    row, = rows_of(tmp_path / "o")
    (row if name in row else row["plain"])[name] = value
    write(tmp_path / "o" / "answers.jsonl", [row])
    done, out, err = evaluate(*arguments)
    assert (done, out) == (2, "") and "answers.jsonl, line 1 is not a row of an evaluation" in err


def test_a_part_of_what_is_there_can_be_looked_at(evaluate, counts, tmp_path):
    arguments = ("--task", counts, "--metric", "exact", "--max-new-tokens", 4, "--out",
                 tmp_path / "o")
    assert "| exact | 0.667 " in evaluate(*arguments)[1]
    assert "| exact | 1.000 " in evaluate(*arguments, "--limit", 2)[1]
    write(tmp_path / "counts.jsonl", [{"prompt": "b", "reference": "c"}])  # the same name
    done, out, err = evaluate(*arguments)
    assert (done, out) == (2, "") and "an answer to another prompt of problem 1" in err


# Faults

def test_a_fault_ends_with_exit_code_1(evaluate, counts, monkeypatch):
    def keep_all(drafted, q, p, generator):
        return Acceptance(drafted.new_full((1,), len(drafted)), p[-1:].argmax(-1))

    monkeypatch.setattr("decoding.cli.session.usual_rule", lambda sampling: keep_all)
    done, out, err = evaluate("--task", counts, "--metric", "exact", "--max-new-tokens", 8)
    assert done == 1 and ": FAULT at new token " in out
    assert "differ by more than rounding explains" in err


def test_a_near_tie_is_told_from_a_fault():
    from decoding.quality.tables import identity

    def row(verdict, gap, limit):
        return {"problem": "7", "difference": {"index": 3, "verdict": verdict, "gap": gap,
                                               "limit": limit}}

    text = identity([row("near-tie", 1e-6, 2e-6), row("DIFFERENT", 1.5, 2e-6),
                     row("DIFFERENT", 1e-6, None), {"problem": "8", "difference": None},
                     row("DIFFERENT", None, None)])
    assert text.splitlines() == [
        "1 of 5 greedy texts have identical ids",
        "- problem 7: near-tie at new token 3, logit gap 1e-06, rounding explains 2e-06",
        "- problem 7: FAULT at new token 3, logit gap 1.5, rounding explains 2e-06",
        "- problem 7: FAULT at new token 3, logit gap 1e-06, but a pass, repeated, chooses another "
        "token",
        "- problem 7: FAULT at new token 3, one text ends there"]


# Numbers

def test_pass_at_k_is_the_mean_over_all_choices_of_k():
    for n, passed in ((10, 0), (10, 1), (10, 4), (12, 12), (1, 1)):
        marks = [1] * passed + [0] * (n - passed)
        found = by_problem([{"pass@1": float(mark)} for mark in marks])
        assert found.keys() == {f"pass@{k}" for k in (1, 10) if k <= n}
        for k in (1, 10):
            if k <= n:
                truth = fmean(max(choice) for choice in combinations(marks, k))
                assert found[f"pass@{k}"] == pytest.approx(truth)


def test_an_interval_and_a_test_of_what_can_be_worked_out():
    same = mean_of([0.25] * 9)
    assert (same.value, same.low, same.high) == (0.25, 0.25, 0.25)
    halves = mean_of([0.0, 1.0] * 50)  # the binomial's: 0.5 -+ 1.96 * 0.05
    assert halves.value == 0.5
    assert halves.low == pytest.approx(0.402, abs=0.011)
    assert halves.high == pytest.approx(0.598, abs=0.011)
    assert paired_test([0.0] * 5) == 1
    # eight differences of one sign: 2 of 256 ways to set signs are as extreme
    assert paired_test([0.1] * 8) == pytest.approx(2 / 256, abs=0.003)
    assert paired_test([0.1, -0.1] * 10) == 1


def test_rouge_is_the_librarys():
    problem = Problem("1", "", {"reference": "the cats sat on the mat"})
    found = rouge(problem, "the cat sat")  # stemmed, 3 of 3 words and 3 of 6
    assert found["rouge1"] == pytest.approx(2 / 3)
    assert found["rouge2"] == pytest.approx(2 * 1 * 0.4 / 1.4)


# Tasks

def test_human_eval_has_its_papers_stops():
    task = load_task("humaneval", None, None)
    assert (len(task.problems), task.metric) == (164, "pass@1")
    assert task.stop == ["\nclass", "\ndef", "\n#", "\nif", "\nprint"]
    assert task.problems[0].name == "HumanEval/0"


XSUM = """
from decoding.quality.tasks import load_task
task = load_task("xsum", None, {template!r})
for problem in task.problems:
    print(repr((problem.name, problem.prompt, problem.facts)))
print(task.metric, task.stop, task.max_new_tokens)
"""
NETWORK = """
from decoding.evaluate import main
import sys
sys.stderr = sys.stdout
print(main(["--task", "xsum"]))
"""


@pytest.mark.slow
def test_xsum_is_read_from_a_hub(tmp_path, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({
        "document": ["A cat sat.\nIt slept.", "Rain {fell}."], "summary": ["Cat.", "Rain."],
        "id": ["11", "12"]}), tmp_path / "x.parquet")
    monkeypatch.setattr("tests.weights.test_hub.COMMIT", REVISION)
    files = {"xsum-test.parquet": (tmp_path / "x.parquet").read_bytes()}
    with hub_server(files) as endpoint:
        first, second, rest = python(XSUM.format(template=None), endpoint, tmp_path)
    assert first == repr(("11", "A cat sat.\nIt slept.\nTL;DR:", {"reference": "Cat."}))
    assert second == repr(("12", "Rain {fell}.\nTL;DR:", {"reference": "Rain."}))
    assert rest == "rouge ['\\n'] 100"
    # the second time no hub is needed
    again, *_ = python(XSUM.format(template="Sum up: {document}"), NO_HUB, tmp_path)
    assert again == repr(("11", "Sum up: A cat sat.\nIt slept.", {"reference": "Cat."}))
    line, code = python(NETWORK, NO_HUB, tmp_path / "empty")
    assert code == "1" and "could not be downloaded from http://127.0.0.1:9" in line
    assert "hf download EdinburghNLP/xsum default/xsum-test.parquet --repo-type dataset" in line


# Bad input

@pytest.mark.parametrize("lines, metric, why", [
    (['{"prompt": "a", "reference": "b"}', '{"prompt": "a"}'], "exact",
     'line 2 has no text "reference", which --metric exact needs'),
    (['{"reference": "b"}'], "rouge", 'line 1 has no text "prompt"'),
    (['{"prompt": "a", "test": "b"}'], "pass@1", 'line 1 has no text "entry_point"'),
    (["", "[1]"], "exact", 'line 2 has no text "prompt"'),
    (["{"], "exact", "line 1 is not JSON"), ([""], "exact", "has no problem"),
])
def test_a_bad_file_is_refused_with_the_lines_number(lines, metric, why, evaluate, tmp_path):
    file = tmp_path / "f.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    done, out, err = evaluate("--task", file, "--metric", metric)
    assert (done, out, err.count("\n")) == (2, "", 1) and why in err


@pytest.mark.parametrize("arguments, why", [
    (["--task", "humanevil"], "unknown task 'humanevil'"),
    (["--task", "FILE"], "needs a --metric: rouge, pass@1, exact"),
    (["--task", "FILE", "--metric", "bleu"], "unknown metric 'bleu'"),
    (["--task", "humaneval", "--metric", "rouge"], "is scored by pass@1"),
    (["--task", "FILE", "--metric", "exact", "--samples", "2"], "--samples does nothing"),
    (["--task", "FILE", "--metric", "exact", "--prompt-template", "x"], "is for --task xsum"),
    (["--task", "FILE", "--metric", "exact", "--run-generated-code"], "does nothing for the"),
    (["--task", "FILE", "--metric", "exact", "--tree", "2x2", "--gamma", "3"], "with --tree"),
    (["--task", "none.jsonl", "--metric", "exact"], "cannot read"), ([], "--task"),
])
def test_what_makes_no_sense_is_refused_in_one_line(arguments, why, evaluate, counts):
    done, out, err = evaluate(*[counts if word == "FILE" else word for word in arguments])
    assert (done, out, err.count("\n")) == (2, "", 1) and why in err


def test_a_missing_library_is_asked_for(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(library, "import_module", missing)
    with pytest.raises(ValueError, match=r"rouge_score is not installed; run `pip install -r"):
        library.library("rouge_score.rouge_scorer")


def test_a_prompt_longer_than_the_context_is_skipped_and_counted(evaluate, tmp_path):
    file = write(tmp_path / "f.jsonl", [{"prompt": "a" * 70, "reference": "b"},
                                        {"prompt": "a", "reference": "b"}])
    done, out, err = evaluate("--task", file, "--metric", "exact", "--max-new-tokens", 1)
    assert done == 0 and "| exact | 1.000" in out and "1 of 2 problems are skipped" in err
    done, _, err = evaluate("--task", file, "--metric", "exact", "--limit", 1)
    assert done == 2 and "no problem of" in err


def test_the_options_that_are_its_own_are_known():
    assert set(OWN) <= {action.dest for action in options_parser()._actions}
