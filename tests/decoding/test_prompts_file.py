"""--prompts-file: a line of JSON for each line, each text what it is alone, bad lines named."""
import io
import json
import sys

import pytest
import torch

from decoding.cli import batch
from tests.commands import N_CTX, ask, one_line
from weights.console import LARGEST_SEED

LINES = [{"prompt": "Once"}, {"prompt": "abcabcabcabc", "max_new_tokens": 9},
         {"prompt": "日本語 😀", "seed": 5}, {"prompt": "a" * N_CTX},
         {"prompt": "Once", "max_new_tokens": 0}, {"prompt": "Once", "max_new_tokens": 50},
         {"prompt": "Hello", "max_new_tokens": 30, "seed": 1}]  # sampled, it comes to its end
BAD = [("nonsense", "it is not JSON"), ("[" * 100_000, "it is not JSON"),
       (b'{"prompt": "\xff"}', "it is not UTF-8"), (r'{"prompt": "\ud800"}', "it is not UTF-8"),
       ("[]", 'it is not an object with a "prompt"'), ("{}", "it is not an object"),
       ('{"prompt": ""}', "the prompt is empty"), ('{"prompt": 7}', "the prompt is not a text"),
       (json.dumps({"prompt": "a" * (N_CTX + 1)}), f"the prompt has {N_CTX + 1} tokens"),
       ('{"prompt": "a", "tokens": 3}', "'tokens' is not one of prompt, max_new_tokens, seed"),
       ('{"prompt": "a", "max_new_tokens": -1}', "max_new_tokens must be a whole number of at"),
       ('{"prompt": "a", "max_new_tokens": true}', "not True"),
       ('{"prompt": "a", "max_new_tokens": 1.5}', "not 1.5"),
       ('{"prompt": "a", "seed": 4294967296}', "seed must be a whole number from 0 to 4294967295"),
       ('{"prompt": "a", "seed": "' + "9" * 5000 + '"}', "seed must be a whole number")]
SAMPLED = ["--temperature", "1", "--seed", "7"]


def test_lines_of_nothing_but_space_are_skipped(generate, write):
    answer = generate("--prompts-file", write(["", {"prompt": "Once"}, " \t", {"prompt": "a"}, ""]),
                      "--max-new-tokens", 2)
    assert answer.code == 0 and [found["line"] for found in objects(answer)] == [2, 4]


@pytest.fixture
def write(tmp_path):
    """Write a file of prompts; return its path."""
    def write(lines, name="prompts.jsonl"):
        lines = [line if isinstance(line, bytes) else
                 (line if isinstance(line, str) else json.dumps(line)).encode() for line in lines]
        (tmp_path / name).write_bytes(b"\n".join(lines))
        return tmp_path / name
    return write


def objects(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


@pytest.mark.parametrize("options", [
    [], SAMPLED, [*SAMPLED, "--at-once", "2"], [*SAMPLED, "--gamma", "8"],
    [*SAMPLED, "--gamma", "0"], ["--draft", "lookup"], [*SAMPLED, "--ignore-eos"],
    [*SAMPLED, "--top-k", "9"]])
def test_each_line_gets_what_it_gets_alone(generate, write, options):
    greedy = SAMPLED[0] not in options
    lines = [{key: value for key, value in line.items() if not (greedy and key == "seed")}
             for line in LINES]
    answer = generate("--prompts-file", write(lines), "--max-new-tokens", 20, *options)
    assert answer.code == 0
    found = objects(answer)
    assert [a["line"] for a in found] == [1, 2, 3, 4, 5, 6, 7]
    if options == SAMPLED:
        assert found[6]["finish_reason"] == "eos"
    single = [option for i, option in enumerate(options)
              if "--at-once" not in options[max(0, i - 1):i + 1]]
    for i, (line, a) in enumerate(zip(lines, found)):
        assert a["seed"] == (None if greedy else line.get("seed", 7 + i))
        seed = [] if greedy else ["--seed", a["seed"]]
        alone = json.loads(generate("--json", "--mode", "speculative", *single, "--max-new-tokens",
                                    line.get("max_new_tokens", 20), *seed, line["prompt"]).out)
        run = alone["speculative"]
        assert (a["prompt"], a["max_new_tokens"]) == (line["prompt"],
                                                      alone["settings"]["max_new_tokens"])
        assert [a[key] for key in ("text", "tokens", "finish_reason")] == [
            run[key] for key in ("text", "tokens", "finish_reason")]
        assert all(a["stats"][key] == value for key, value in run["stats"].items()
                   if "second" not in key)


def test_the_plain_loop(pair, capsys, write):
    found = objects(ask(capsys, *pair[:2], *pair[4:], "--mode", "baseline", "--max-new-tokens", 20,
                        "--prompts-file", write(LINES[:2])))
    for line, a in zip(LINES, found):
        alone = json.loads(ask(capsys, *pair[:2], *pair[4:], "--mode", "baseline", "--json",
                               "--max-new-tokens", line.get("max_new_tokens", 20),
                               line["prompt"]).out)["baseline"]
        assert a["tokens"] == alone["tokens"] and a["stats"]["drafted"] == 0


def test_a_bad_line_is_named_and_the_others_go_on(generate, write):
    lines = [line for bad, _ in BAD for line in (bad, "", {"prompt": "Once", "max_new_tokens": 3})]
    name = write([b"\xef\xbb\xbf" + json.dumps(LINES[1]).encode() + b"\r", *lines, ""])
    answer = generate("--prompts-file", name, *SAMPLED, "--quiet")
    assert answer.code == 2
    found, errors = objects(answer), answer.err.splitlines()
    numbers = [1, *(n for i in range(len(BAD)) for n in (3 * i + 2, 3 * i + 4))]
    assert [a["line"] for a in found] == numbers
    assert [len(a["tokens"]) for a in found if "error" not in a] == [9, *([3] * len(BAD))]
    for (_, words), error, line in zip(BAD, [a for a in found if "error" in a], errors,
                                       strict=True):
        assert words in error["error"]
        assert line == f"{name}, line {error['line']}: {error['error']}"
        assert len(line) < 300


def test_where_all_lines_are_bad_no_model_is_loaded(generate, write, monkeypatch):
    monkeypatch.setattr(batch, "Session", None)
    answer = generate("--prompts-file", write(["nonsense", '{"prompt": "a", "seed": 1}']))
    assert (answer.code, len(objects(answer))) == (2, 2)
    assert "line 2: seed does nothing in greedy mode" in answer.err


def test_seeds_count_on_from_the_largest(generate, write):
    lines = write([{"prompt": "a", "max_new_tokens": 1}] * 3)
    found = objects(generate("--prompts-file", lines, "--temperature", 1, "--seed", LARGEST_SEED))
    assert [a["seed"] for a in found] == [LARGEST_SEED, 0, 1]


def test_prompts_from_stdin(generate, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "Once"}')))
    assert [a["prompt"] for a in objects(generate("--prompts-file", "-"))] == ["Once"]


def watch(monkeypatch, after=None, error=None):
    """Record how the batched loop is called; after so many passes raise the error in it."""
    calls, real = [], batch.batch_rounds

    def passes(*arguments, **options):
        calls.append(options)
        for i, found in enumerate(real(*arguments, **options)):
            if i == after:
                raise error
            yield found

    monkeypatch.setattr(batch, "batch_rounds", passes)
    return calls


def test_how_many_at_once(generate, write, monkeypatch):
    calls = watch(monkeypatch)
    lines = write([{"prompt": "a", "max_new_tokens": 2}] * 9)
    assert "; 8 texts at once" in generate("--prompts-file", lines).err
    assert "; 3 texts at once" in generate("--prompts-file", lines, "--at-once", 3).err
    assert "; 9 texts at once" in generate("--prompts-file", lines, "--at-once", 20).err
    assert [(call["at_once"], call["continuous"]) for call in calls] == [
        (8, True), (3, True), (20, True)]


LENGTHS = [{"prompt": "Once", "max_new_tokens": n} for n in (1, 30, 2, 30)]


def test_interrupted_what_has_ended_is_printed(generate, write, monkeypatch):
    watch(monkeypatch, 4, KeyboardInterrupt())
    answer = generate("--prompts-file", write(LENGTHS), "--gamma", 1, "--ignore-eos")
    assert [(a["line"], len(a["tokens"])) for a in objects(answer)] == [(1, 1), (3, 2)]
    assert answer.code == 130
    assert answer.err.endswith("interrupted; 2 of 4 lines are answered\n")


def test_out_of_memory(generate, write, monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB.")
    watch(monkeypatch, 0, error)
    line = one_line(generate("--prompts-file", write(LENGTHS), "--quiet"), 1)
    assert "out of memory (4 texts at once, see --at-once); try" in line


def test_a_mistake_of_ours_is_not_hidden(generate, write, monkeypatch):
    watch(monkeypatch, 0, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        generate("--prompts-file", write(LENGTHS))


def test_the_progress_is_seen_on_a_terminal(generate, write, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for quiet in ([], ["--quiet"]):
        monkeypatch.setattr(sys, "stderr", Terminal())
        generate("--prompts-file", write([*LENGTHS, "bad"]), "--ignore-eos", "--gamma", 0, *quiet)
        shown = sys.stderr.getvalue()
        assert ("\r2 of 5 lines, 4 tokens\033[K" in shown) == (not quiet)
        assert shown.endswith("\r\033[K") == (not quiet)
