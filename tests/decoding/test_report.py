"""What a run says besides its text: the table, the JSON object, the rounds explained, and notes."""
import ast
import json
import math
import re
import sys

import pytest
import torch

from decoding import GREEDY, speculative_rounds
from decoding.acceptance import Acceptance
from decoding.bench.options import make_parser
from decoding.cli.console import Console
from decoding.cli.options import parse
from decoding.cli.prompt import read_prompt
from decoding.cli.report import advise, lossless, reason
from decoding.cli.run import report
from decoding.cli.session import Session
from decoding.result import Generation, Round
from tests.commands import END_OF_TEXT, ask, write_pair
from weights import load_model

SHORT = ["--max-new-tokens", 20, "Once"]
SAMPLED = ["--temperature", 1, "--seed", 7]
OPTIONS = {"prompt_file", "prompts_file", "at_once", "target", "draft", "mode", "gamma", "tree", "max_new_tokens",
           "temperature", "top_k", "top_p", "rule", "coupling", "seed", "device", "dtype",
           "layout", "compile", "no_cache", "ignore_eos", "allow_special", "trace", "step", "json",
           "color", "quiet"}
STATS = {"rounds", "new_tokens", "drafted", "tested", "accepted", "corrections", "bonuses", "cut",
         "histogram", "accepted_per_drafted", "accepted_per_tested", "tokens_per_round",
         "prefill_seconds", "decode_seconds", "tokens_per_second"}


def parsed(answer):
    assert answer.code == 0
    return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def accept_everything(drafted, q, p, generator):
    return Acceptance(drafted.new_tensor([len(drafted)]), p[-1:].argmax(-1))


@pytest.mark.parametrize("arguments, more", [
    ([], {"baseline", "speculative", "speedup", "identical"}),
    (SAMPLED, {"baseline", "speculative", "speedup"}),
    (["--mode", "speculative"], {"speculative"}),
])
def test_the_json_object(generate, arguments, more):
    answer = generate("--json", *arguments, *SHORT)
    result = parsed(answer)
    assert answer.out.count("\n") == 1
    assert set(result) == {"prompt", "settings"} | more
    assert result["prompt"] == "Once"
    assert set(result["settings"]) == OPTIONS | {"threads"}
    assert result["settings"]["device"] in ("cpu", "cuda", "mps")
    for run in {"baseline", "speculative"} & more:
        assert set(result[run]) == {"text", "tokens", "finish_reason", "stats"}
        assert set(result[run]["stats"]) == STATS
        assert len(result[run]["tokens"]) == result[run]["stats"]["new_tokens"] == 20
    if "speedup" in more:
        rates = [result[run]["stats"]["tokens_per_second"] for run in ("speculative", "baseline")]
        assert math.isclose(result["speedup"], rates[0] / rates[1])
    if "identical" in more:
        assert result["identical"] is True
        assert result["baseline"]["tokens"] == result["speculative"]["tokens"]


def test_no_tokens_are_no_numbers(generate):
    answer = generate("--json", "--max-new-tokens", 0, "Once")
    result = parsed(answer)
    assert result["speedup"] is None and result["identical"] is True
    for run in ("baseline", "speculative"):
        assert (result[run]["text"], result[run]["tokens"]) == ("", [])
        assert result[run]["finish_reason"] == "length"
        missing = {name for name, number in result[run]["stats"].items() if number is None}
        assert missing == {name for name in STATS if "_per_" in name or "prefill" in name}
    assert "tokens/s                               n/a" in answer.err


def test_a_difference_is_shown(pair, capsys):
    """As the program would, of a run by a rule that accepts everything."""
    options = parse([*pair, "Once"])
    session = Session(options, read_prompt(options))
    rounds = speculative_rounds(session.target, session.draft, session.prompt.ids, 20, gamma=4,
                                rule=accept_everything, sampling=GREEDY)
    runs = {"baseline": Generation(list(session.baseline(20)), 0),
            "speculative": Generation(list(rounds), 4)}
    plain, speculative = (run.tokens for run in runs.values())
    result = report(session, runs, Console(options))
    err = capsys.readouterr().err
    first = next(i for i in range(20) if plain[i] != speculative[i])
    difference = result["first_difference"]
    assert result["identical"] is False
    index = difference["index"]
    assert index >= first and difference["speculative"] == speculative[index]
    assert index > first or difference["baseline"] == plain[first]
    assert difference["verdict"] == "DIFFERENT" and difference["gap"] > difference["limit"] > 0
    assert f"ids identical: no, difference at new token {index}" in err
    assert err.rstrip().endswith(": DIFFERENT")


def test_the_table_shows_the_numbers_of_the_runs(generate):
    answer = generate("--json", *SHORT)
    result, rows = parsed(answer), [line.split() for line in answer.err.splitlines()]
    stats = result["speculative"]["stats"]
    for label, value in (("new tokens", "20"),
                         ("tokens per round", f"{stats['tokens_per_round']:.2f}"),
                         ("rounds (target passes)", str(stats["rounds"])),
                         ("speed-up", f"{result['speedup']:.2f}"),
                         ("tokens/s", f"{stats['tokens_per_second']:.1f}"),
                         ("prefill seconds", f"{stats['prefill_seconds']:.3f}")):
        row = next(row for row in rows if row[: len(label.split())] == label.split())
        assert row[-1] == value
    for whole in ("drafted", "tested"):
        share = stats[f"accepted_per_{whole}"]
        assert f"{stats['accepted']}/{stats[whole]} = {share:.2f}" in answer.err
    assert "ids identical: yes" in answer.err


def run(gamma, rounds, accepted, seconds, drafted=None):
    """A run of equal rounds: so many tokens drafted in each, so many kept, so long did it take."""
    drafted = gamma if drafted is None else drafted
    kind = "bonus" if accepted == drafted else "correction"
    one = Round([1] * drafted, accepted, 2, kind, (0, 0), None, None, seconds)
    return Generation([one] * rounds, gamma)


@pytest.mark.parametrize("baseline, speculative, sentence", [
    (run(0, 200, 0, 0.01), run(4, 50, 3, 0.02),  # a round costs 2 steps and gives 4 tokens
     "50 passes of the target instead of 200; a round cost 2.00 plain steps and gave 4.00 tokens, "
     "so it was 2.00 times as fast."),
    (run(0, 100, 0, 0.01), run(4, 100, 1, 0.04),  # texts of 100 and of 200 tokens
     "100 passes of the target instead of 200; a round cost 4.00 plain steps and gave 2.00 tokens, "
     "so it lost. If nothing else was running, try to rest."),
    (run(0, 5, 0, 0.01), run(4, 1, 4, 0.0502),
     "1 pass of the target instead of 5; a round cost 5.02 plain steps and gave 5.00 tokens, "
     "so it was about as fast as the plain loop."),
    (run(0, 5, 0, 0.01), run(4, 1, 4, 0.008),
     "1 pass of the target instead of 5; a round cost 0.80 plain steps and gave 5.00 tokens, "
     "so the two were not timed alike: the machine was busy, or one text is much longer; "
     "run it again."),
    (run(0, 20, 0, 0.01), run(0, 20, 0, 0.02),  # --gamma 0
     "Nothing was drafted, so every round was a plain step: there was nothing to gain."),
    (run(0, 1, 0, 0.01), run(4, 1, 0, 0.01, drafted=0),  # one token: no room for a draft
     "Nothing was drafted, so every round was a plain step: there was nothing to gain."),
    (run(0, 0, 0, 0.01), run(4, 0, 4, 0.01),
     "No token was decoded, so there is nothing to compare."),
])
def test_one_sentence_explains_the_speed_up(baseline, speculative, sentence):
    assert reason(baseline, speculative, "try to rest") == sentence


@pytest.mark.parametrize("arguments, advice", [
    ([], "try --gamma 2, or python -m decoding.benchmark --tune --temperatures 0.8 "
         "to find the best gamma here"),
    (["--gamma", "2", "--temperature", "0"], "try python -m decoding.benchmark --tune "
                                             "--temperatures 0 to find the best gamma here"),
    (["--gamma", "auto"], "try python -m decoding.benchmark --tune --temperatures 0.8 "
                          "to find the best gamma here"),
    (["--draft", "lookup"], "try a draft model: copying gains only where a text repeats itself"),
    (["--target", "gpt2-xl", "--temperature", "1"],
     "try --gamma 2, or python -m decoding.benchmark --tune --temperatures 1 --target gpt2-xl "
     "--draft gpt2 to find the best gamma here"),
])
def test_after_a_loss_there_is_something_to_try_that_fits_the_run(arguments, advice):
    assert advise(parse(arguments)) == advice
    if "benchmark" in advice:  # and it is a command that can be given
        command = advice.partition("decoding.benchmark ")[2].partition(" to find")[0]
        assert make_parser().parse_args(command.split()).tune


@pytest.mark.parametrize("arguments, words", [
    ([], None),
    (SAMPLED, lossless(shared_noise=False)),
    ([*SAMPLED, "--coupling", "gumbel"], lossless(shared_noise=True)),
])
def test_a_sampled_comparison_says_what_lossless_means(generate, arguments, words):
    lines = generate(*arguments, *SHORT).err.splitlines()
    assert any(" of the target instead of 20; a round cost " in line for line in lines)
    assert [line for line in lines if line.startswith("Lossless")] == ([words] if words else [])
    assert (lines[-1] == "ids identical: yes") == (words != lossless(shared_noise=False))


@pytest.mark.parametrize("mode", ["speculative", "baseline"])
def test_a_single_run_is_not_explained(pair, capsys, mode):
    options = pair if mode == "speculative" else [*pair[:2], *pair[4:]]
    err = ask(capsys, *options, "--mode", mode, *SAMPLED, *SHORT).err
    assert "tokens/s" in err and "instead of" not in err and "Lossless" not in err


def test_the_seed_is_printed_even_when_it_was_drawn(generate):
    drawn = generate("--mode", "speculative", "--temperature", 2, *SHORT)
    seed = re.search(r", seed (\d+);", drawn.err).group(1)
    assert generate("--mode", "speculative", "--temperature", 2, "--seed", seed,
                    *SHORT).out == drawn.out


def test_quiet_is_quiet(generate):
    loud, quiet = generate("--mode", "speculative", *SHORT), generate("--quiet", *SHORT)
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    assert parsed(generate("--quiet", "--json", *SHORT))["identical"] is True


def test_a_draft_with_a_shorter_context_is_noted_once_in_one_line(tmp_path, capsys):
    pair = write_pair(tmp_path, draft_ctx=16)
    for noted, arguments in ((1, []), (0, ["--quiet", "--json"])):
        code, _, err = ask(capsys, *pair, *arguments, "--max-new-tokens", 40, "Once")
        notes = [line for line in err.splitlines() if "16 tokens" in line]
        assert code == 0 and "Warning" not in err
        assert len(notes) == noted
        assert all(note.startswith("note: the draft reads at most 16 tokens") for note in notes)


def test_the_rounds_of_a_sampled_run_are_explained(generate):
    answer = generate("--trace", "--json", "--gamma", 3, "--mode", "speculative",
                      "--temperature", 0.5, "--seed", 3, "--ignore-eos", "--max-new-tokens", 60,
                      "Once")
    stats = parsed(answer)["speculative"]["stats"]
    lines = [line for line in answer.err.splitlines() if line.startswith("round ")]
    numbers = [int(re.match(r"round (\d+): ", line).group(1)) for line in lines]
    assert numbers == list(range(1, stats["rounds"] + 1))
    tests = re.findall(r"p (\S+) q (\S+) p/q (\S+) u (\S+) (kept|REJECTED)", "\n".join(lines))
    assert len(tests) == stats["tested"]
    for p, q, ratio, u, verdict in tests:
        assert math.isclose(float(p) / float(q), float(ratio), rel_tol=0.02)
        assert (float(u) < float(ratio)) == (verdict == "kept")
    corrections = sum("residual" in line and "| correction " in line for line in lines)
    assert corrections == stats["corrections"] > 0
    assert sum("| bonus " in line for line in lines) == stats["bonuses"] > 0
    assert "\n".join(lines).count("not tested") == stats["drafted"] - stats["tested"]


def test_the_rounds_of_the_block_rule_are_explained(generate):
    answer = generate("--rule", "block", "--trace", "--json", "--gamma", 4, "--temperature", 0.5,
                      "--seed", 3, "--ignore-eos", "--max-new-tokens", 60, "Once")
    result = parsed(answer)
    stats = result["speculative"]["stats"]
    assert result["settings"]["rule"] == "block" and ", block rule, seed 3;" in answer.err
    assert stats["accepted_per_tested"] is None and stats["accepted_per_drafted"] > 0
    assert re.search(r"accepted/tested +n/a +n/a\n", answer.err)
    lines = [line for line in answer.err.splitlines() if line.startswith("round ")]
    overruled = 0
    for line in lines:
        tests = re.findall(r"p/q (\S+) P (\S+) h (\S+) u (\S+) (kept|REJECTED)", line)
        P, passed = 1.0, 0
        for i, (ratio, shown, h, u, _) in enumerate(tests, start=1):
            P = min(1, P * float(ratio))
            assert math.isclose(P, float(shown), rel_tol=0.03)
            passed = i if float(u) < float(h) else passed
        assert [verdict for *_, verdict in tests] == [
            "kept" if i < passed else "REJECTED" for i in range(len(tests))]
        overruled += any(float(u) >= float(h) for _, _, h, u, _ in tests[:passed])
    assert overruled > 0  # a failed test that stopped nothing
    assert "not tested" not in answer.err and "residual" in answer.err


@torch.no_grad()
def test_the_rounds_of_a_greedy_run_are_explained(pair, generate):
    answer = generate("--trace", "--json", "--mode", "speculative", *SHORT)
    model, text, verdicts = load_model(pair[1]), list(b"Once"), []
    tokens = parsed(answer)["speculative"]["tokens"]
    for line in (line for line in answer.err.splitlines() if line.startswith("round ")):
        tests = re.findall(r"(\S+) target (\S+) by \+(\S+) (kept|REJECTED)", line)
        for drafted, choice, lead, verdict in tests:
            logits = model(torch.tensor([text]))[0, -1]
            rival = logits.topk(2).values[1] if drafted == choice else logits[to_id(drafted)]
            assert float(lead) == pytest.approx((logits[to_id(choice)] - rival).item(), abs=0.0051)
            assert (drafted == choice) == (verdict == "kept")
            text.append(tokens.pop(0))
            assert text[-1] == to_id(choice)
            verdicts.append(verdict)
        if " bonus " in line:
            text.append(tokens.pop(0))
        before, after = map(int, re.search(r"target cache (\d+) -> (\d+)", line).groups())
        assert after == len(text) - 1 <= before
    assert tokens == [] and set(verdicts) == {"kept", "REJECTED"}


@pytest.mark.parametrize("shape, most", [("3x2", 6), ("2,2,1", 10)])
@pytest.mark.parametrize("chance", [[], ["--temperature", 0.2, "--seed", 3],
                                    ["--temperature", 1, "--seed", 3, "--coupling", "gumbel"]])
def test_the_rounds_of_a_tree_are_explained(generate, shape, most, chance):
    answer = generate("--tree", shape, *chance, "--trace", "--json", "--ignore-eos",
                      "--max-new-tokens", 60, "Once")
    result = parsed(answer)
    stats, tokens = result["speculative"]["stats"], result["speculative"]["tokens"]
    assert f"tree {shape}, " in answer.err and result["settings"]["tree"] == shape
    assert stats["drafted"] <= most * stats["rounds"] and len(stats["histogram"]) == 4
    drawn = chance != [] and "--coupling" not in chance
    assert result.get("identical") is (None if drawn else True)
    lines = [line for line in answer.err.splitlines() if line.startswith("round ")]
    assert len(lines) == stats["rounds"]
    by_sibling = 0
    for line in lines:
        positions = re.findall(r"position \d+: (.*?) \|", line)
        for position in positions:
            if drawn:
                tests = re.findall(r"p/q (\S+) u (\S+) (kept|REJECTED)", position)
                assert all((float(u) < float(r)) == (v == "kept") for r, u, v in tests)
                kept = [v for *_, v in tests if v == "kept"]
                assert len(kept) == position.count("kept") <= 1
                by_sibling += bool(kept) and len(tests) > 1
            else:
                assert position.startswith("target ") and position.count(" kept") <= 1
            if " kept" not in position:
                assert position is positions[-1] and "| correction " in line
    assert by_sibling > 0 or not drawn
    assert sum(line.count(" kept") for line in lines) == stats["accepted"]
    assert len(tokens) == 60


def to_id(shown):
    """The id of a token that a trace names: tokens are bytes here."""
    value = ast.literal_eval(shown)
    value = value if isinstance(value, bytes) else value.encode()
    return value[0] if len(value) == 1 else END_OF_TEXT


def test_step_computes_a_round_only_when_enter_was_pressed(generate, capsys, monkeypatch):
    class Keyboard:
        def __init__(self):
            self.presses, self.shown = 3, []

        def readline(self):
            self.shown.append(capsys.readouterr().err.count("round "))
            self.presses -= 1
            return "\n" if self.presses >= 0 else ""

        def isatty(self):
            return False

    keyboard = Keyboard()
    monkeypatch.setattr(sys, "stdin", keyboard)
    stepped = generate("--step", "--mode", "speculative", *SHORT)
    assert keyboard.shown == [0, 1, 1, 1]  # and then stdin has ended, and the rest comes at once
    assert stepped.err.count("round ") > 1
