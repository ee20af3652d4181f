"""What a run says besides its text: the table, the JSON object, the rounds explained, and notes."""
import ast
import json
import math
import re
import sys
from itertools import chain

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
OPTIONS = {"prompt_file", "prompts_file", "at_once", "target", "draft", "mode", "gamma", "tree",
           "max_new_tokens", "temperature", "top_k", "top_p", "rule", "coupling", "seed", "device",
           "dtype", "layout", "compile", "processes", "no_cache", "stop", "ignore_eos",
           "allow_special", "trace", "step", "rejected", "record", "json", "color", "quiet"}
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
    assert set(result["settings"]) == OPTIONS | {"head", "threads"}
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
    assert difference["verdict"] == "DIFFERENT" and difference["limit"] is None
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


def rounds_of(err):
    """The lines of each round in a trace."""
    body = err[err.index("round 1: "):err.index("\n\n")]
    rounds = [block.splitlines() for block in re.split(r"^(?=round \d+: )", body, flags=re.M)[1:]]
    assert [int(re.match(r"round (\d+)", lines[0])[1]) for lines in rounds] == list(
        range(1, len(rounds) + 1))
    assert max(len(line) for lines in rounds for line in lines) <= 80
    return rounds


ROW = r"(\d+(?:\.\d+)*) (\S.*?) {2,}"
NUMBER = r"(\d[\d.e+-]*) *█* +"
FATE = r"(accepted|REJECTED|not tested)"


def matches(pattern, lines):
    return [found.groups() for line in lines if (found := re.fullmatch(pattern, line))]


def test_the_rounds_of_a_sampled_run_are_explained(generate):
    answer = generate("--trace", "--json", "--gamma", 3, "--mode", "speculative",
                      "--temperature", 0.5, "--seed", 3, "--ignore-eos", "--max-new-tokens", 60,
                      "Once")
    stats = parsed(answer)["speculative"]["stats"]
    rounds = rounds_of(answer.err)
    assert len(rounds) == stats["rounds"]
    rows = matches(ROW + NUMBER * 4 + FATE, chain(*rounds))
    assert len(rows) == stats["drafted"]
    tests = [numbers for *numbers, verdict in rows if verdict != "not tested"]
    assert len(tests) == stats["tested"]
    for _, _, q, p, ratio, u, verdict in rows:
        q, p, ratio, u = map(float, (q, p, ratio, u))
        if q > 0.05:  # three digits say little about the ratio of small numbers
            assert p / q == pytest.approx(ratio, rel=0.05, abs=0.05)
        assert verdict == "not tested" or (u < ratio) == (verdict == "accepted")
    corrections = [lines for lines in rounds if any(line.startswith("residual") for line in lines)]
    assert len(corrections) == stats["corrections"] > 0
    assert all(any(line.startswith("correction") for line in lines) for lines in corrections)
    assert sum(line.startswith("bonus") for line in chain(*rounds)) == stats["bonuses"] > 0


def test_the_rounds_of_the_block_rule_are_explained(generate):
    answer = generate("--rule", "block", "--trace", "--json", "--gamma", 4, "--temperature", 0.5,
                      "--seed", 3, "--ignore-eos", "--max-new-tokens", 60, "Once")
    result = parsed(answer)
    stats = result["speculative"]["stats"]
    assert result["settings"]["rule"] == "block" and ", block rule, seed 3;" in answer.err
    assert stats["accepted_per_tested"] is None and stats["accepted_per_drafted"] > 0
    assert re.search(r"accepted/tested +n/a +n/a\n", answer.err)
    overruled = drafted = 0
    for lines in rounds_of(answer.err):
        tests = matches(ROW + NUMBER * 5 + FATE, lines)
        drafted += len(tests)
        before, passed = 1.0, 0
        for i, (_, _, q, p, P, h, u, _) in enumerate(tests, start=1):
            if float(q) > 0.05:  # three digits say little about the ratio of small numbers
                assert min(1, before * float(p) / float(q)) == pytest.approx(float(P), abs=0.05)
            before, passed = float(P), i if float(u) < float(h) else passed
        assert [verdict for *_, verdict in tests] == [
            "accepted" if i < passed else "REJECTED" for i in range(len(tests))]
        overruled += any(float(u) >= float(h) for *_, h, u, _ in tests[:passed])
    assert drafted == stats["drafted"] and overruled > 0  # a failed test that stopped nothing
    assert "not tested" not in answer.err and "\nresidual " in answer.err


@torch.no_grad()
def test_the_rounds_of_a_greedy_run_are_explained(pair, generate):
    answer = generate("--trace", "--json", "--mode", "speculative", *SHORT)
    model, text, verdicts = load_model(pair[1]), list(b"Once"), []
    tokens = parsed(answer)["speculative"]["tokens"]
    for lines in rounds_of(answer.err):
        for _, drafted, choice, lead, verdict in matches(
                ROW + r"(\S.*?) {2,}" + r"([\d.e-]+) +" + FATE, lines):
            if verdict == "not tested":
                continue
            logits = model(torch.tensor([text]))[0, -1]
            rival = logits.topk(2).values[1] if drafted == choice else logits[to_id(drafted)]
            assert float(lead) == pytest.approx((logits[to_id(choice)] - rival).item(), abs=0.0011)
            assert (drafted == choice) == (verdict == "accepted")
            text.append(tokens.pop(0))
            assert text[-1] == to_id(choice)
            verdicts.append(verdict)
        if any(line.startswith("bonus ") for line in lines):
            text.append(tokens.pop(0))
        before, after = map(int, re.search(r"target (\d+) -> (\d+)", "\n".join(lines)).groups())
        assert after == len(text) - 1 <= before
    assert tokens == [] and set(verdicts) == {"accepted", "REJECTED"}


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
    rounds = rounds_of(answer.err)
    assert len(rounds) == stats["rounds"]
    accepted = shown = left = by_sibling = 0
    for lines in rounds:
        rows = matches(ROW + ".*?" + FATE, lines)
        shown += len(rows)
        left += sum(int(n) for n, in matches(r"(\d+) more on other branches, not tested", lines))
        for _, _, q, p, ratio, u, verdict in matches(ROW + NUMBER * 4 + FATE, lines):
            assert drawn and (float(u) < float(ratio)) == (verdict == "accepted")
            if float(q) > 0.05:
                assert float(p) / float(q) == pytest.approx(float(ratio), rel=0.05, abs=0.05)
        kept = ""  # the name of the token that the next one follows
        for depth in range(1, 4):
            candidates = [(name, verdict) for name, _, verdict in rows
                          if name.count(".") == depth - 1]
            assert all(name.startswith(kept) for name, _ in candidates)
            taken = [name for name, verdict in candidates if verdict == "accepted"]
            accepted += len(taken)
            if not taken:
                assert not candidates or any(line.startswith("correction") for line in lines)
                break
            assert len(taken) == 1
            by_sibling += not taken[0].endswith("1")
            kept = taken[0] + "."
    assert accepted == stats["accepted"] and shown + left == stats["drafted"]
    assert by_sibling > 0 or not drawn
    assert len(tokens) == 60


def to_id(shown):
    """The id of a token that a trace names: tokens are bytes here."""
    value = ast.literal_eval(shown)
    value = value if isinstance(value, bytes) else value.encode()
    return value[0] if len(value) == 1 else END_OF_TEXT


class Keyboard:
    """Someone who presses Enter so many times, and then Ctrl-D."""

    def __init__(self, presses, capsys):
        self.presses, self.capsys, self.shown = presses, capsys, []

    def readline(self):
        self.shown.append(self.capsys.readouterr().err)
        self.presses -= 1
        return "\n" if self.presses >= 0 else ""

    def isatty(self):
        return False


def test_step_shows_a_round_in_three_stages(generate, capsys, monkeypatch):
    keyboard = Keyboard(4, capsys)
    monkeypatch.setattr(sys, "stdin", keyboard)
    rest = generate("--step", "--mode", "speculative", *SAMPLED, *SHORT).err
    before, draft, target, verdict, second = keyboard.shown
    assert "round" not in before and before.endswith("[Enter: draft; Ctrl-C: stop] ")
    assert "round 1: 4 tokens drafted\n" in draft
    assert draft.endswith("[Enter: the target's answer] ")
    assert re.search(r"^drafted +q$", draft, re.M)
    assert re.search(r"^drafted +q +p +p/q +u$", target, re.M) and "verdict\n" not in target
    assert not re.search("accepted|REJECTED|residual|bonus|caches", draft + target)
    assert re.search(r"^drafted +q +p +p/q +u  verdict$", verdict, re.M)
    assert re.search(r"round 1: \d of 4 drafted tokens accepted\n", verdict)
    assert re.search(r"^drafted +q$", second, re.M)
    # stdin has ended: the round that was begun, and all others, come whole and at once
    assert re.match(r"\nround 2: \d of 4 drafted tokens accepted\n", rest)
    assert "[Enter" not in rest and rest.count("round ") > 1


def test_step_keeps_the_uniforms_of_a_tree_for_the_verdict(generate, capsys, monkeypatch):
    """Only tested candidates have one: it would give the verdict away."""
    keyboard = Keyboard(4, capsys)
    monkeypatch.setattr(sys, "stdin", keyboard)
    generate("--step", "--mode", "speculative", "--tree", "3x2", *SAMPLED, *SHORT)
    _, draft, target, verdict, _ = keyboard.shown
    assert re.search(r"^drafted +q$", draft, re.M)
    assert re.search(r"^drafted +q +p +p/q$", target, re.M)
    assert re.search(r"^drafted +q +p +p/q +u  verdict$", verdict, re.M)


def test_step_computes_a_round_only_when_enter_was_pressed(generate, capsys, monkeypatch):
    computed = []

    def watched(*arguments, **options):
        for round in speculative_rounds(*arguments, **options):
            computed.append(round)
            yield round

    class Counting(Keyboard):
        def readline(self):
            self.shown.append(len(computed))
            return super().readline()

    keyboard = Counting(4, capsys)
    monkeypatch.setattr("decoding.cli.session.speculative_rounds", watched)
    monkeypatch.setattr(sys, "stdin", keyboard)
    generate("--step", "--mode", "speculative", *SAMPLED, *SHORT)
    assert keyboard.shown[::2] == [0, 1, 1, 1, 2]
