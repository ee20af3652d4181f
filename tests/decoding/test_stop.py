"""Stop strings end a text at the same token in every loop, however tokens and blocks cut them.

The truth is the same run without them, searched after each token.
"""
import io
import json
import random
from dataclasses import replace

import pytest
import torch

from decoding import (
    Generation,
    Sampling,
    autoregressive,
    speculative_batch,
    speculative_greedy,
    speculative_sampling,
)
from decoding.cli.streaming import TextStream
from decoding.drafters.tree import CombDrafter
from decoding.stop import Stop, text_of
from decoding.tree import speculative_tree
from tests.checks import check_counts
from tests.commands import ask, one_line
from tests.decoding.test_streaming import as_bytes, cut
from weights import load_model, load_tokenizer

TARGET, DRAFT = load_model("tales-large"), load_model("tales-small")
TOKENIZER = load_tokenizer("tales-large")
PROMPT, N = TOKENIZER.encode("Once upon a time"), 40


def seeded():
    return torch.Generator().manual_seed(5)


LOOPS = {
    "plain": lambda **options: autoregressive(TARGET, PROMPT, N, **options),
    "plain, sampled": lambda **options: autoregressive(
        TARGET, PROMPT, N, sampling=Sampling(0.8), generator=seeded(), **options),
    "greedy": lambda **options: speculative_greedy(TARGET, DRAFT, PROMPT, N, gamma=6, **options),
    "sampled": lambda **options: speculative_sampling(
        TARGET, DRAFT, PROMPT, N, gamma=6, sampling=Sampling(0.8), generator=seeded(), **options),
    "tree": lambda **options: speculative_tree(
        TARGET, CombDrafter(DRAFT, 6, 2), PROMPT, N, sampling=Sampling(0), **options),
    "batch": lambda **options: speculative_batch(
        TARGET, DRAFT, [PROMPT, PROMPT[:1]], N, gamma=6, **options)[0],
}


def first_end(tokens, strings):
    """The tokens up to the first after which the text has a stop string in it."""
    for i in range(1, len(tokens) + 1):
        if any(string in TOKENIZER.decode(tokens[:i]) for string in strings):
            return tokens[:i]
    return tokens


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_ends_where_the_string_is_complete(loop):
    run = LOOPS[loop]
    whole = run().tokens
    text, numbers = TOKENIZER.decode(whole), random.Random(0)
    inside = 0
    for _ in range(8):
        start = numbers.randrange(len(text) // 2)
        strings = ["not there", text[start : start + numbers.randint(1, 12)]]
        found = run(stop=Stop(strings, TOKENIZER))
        expected = first_end(whole, strings)
        assert (found.tokens, found.finish_reason) == (expected, "stop"), strings
        assert text_of(found.tokens, TOKENIZER, Stop(strings, TOKENIZER)) == (
            text[: text.index(strings[1])])
        inside += found.rounds[-1].kind == "none"
        if loop in ("greedy", "sampled"):
            check_counts(found)
    assert inside or loop.startswith("plain")  # else no end lay among accepted tokens


def test_a_string_of_the_prompt_ends_nothing():
    stop = Stop(["time"], TOKENIZER)
    assert autoregressive(TARGET, PROMPT, 4, stop=stop).finish_reason == "length"
    stop = Stop(["time there"], TOKENIZER)  # it begins in the prompt
    assert autoregressive(TARGET, PROMPT, 4, stop=stop).finish_reason == "length"


@pytest.mark.parametrize("strings", [[], "abc", ["a", ""]])
def test_what_is_no_list_of_strings_is_refused(strings):
    with pytest.raises(ValueError, match="list of strings"):
        Stop(strings, TOKENIZER)


TEXT = "one two, 日本 — two\n\nthree. abcabd"


@pytest.mark.parametrize("strings", [
    ["two"], ["abd"], ["\n\n"], ["本 —"], ["two\n", "o,"], ["abcabda"], ["one two, x", "e"],
    ["ee. abcabd", "three. abcz"]])
def test_a_stream_shows_the_text_before_the_string_and_no_more(strings):
    stop = Stop(strings, TOKENIZER)
    places = [TEXT.find(string) for string in strings if string in TEXT]
    for seed in range(12):
        ids = as_bytes(TEXT.encode()) if seed % 2 else TOKENIZER.encode(TEXT)
        ids = first_end_of_bytes(ids, stop)
        text = TextStream(out := io.StringIO(), TOKENIZER, TOKENIZER.ends, False, stop=stop)
        expected = text_of(ids, TOKENIZER, stop)
        for round in cut(ids, random.Random(seed)):
            text.write_round(round)
            assert expected.startswith(out.getvalue())  # nothing is taken back
        text.close()
        assert out.getvalue() == text.text == expected
        assert not places or expected in [TEXT[:place] for place in places]


@pytest.mark.parametrize("strings", [None, ["bd"], ["absent"]])
def test_special_tokens_that_were_drawn_are_not_shown(strings):
    """Padding, a second BOS and an end-of-text, also in the middle of a stop string."""
    BOS, PAD = TOKENIZER.n_vocab, TOKENIZER.n_vocab + 1
    tokenizer = replace(TOKENIZER, first=(BOS,), special={
        **TOKENIZER.special, "<bos>": BOS, "<pad>": PAD})
    stop = None if strings is None else Stop(strings, tokenizer)
    plain = TOKENIZER.encode("one two abc three")
    ids = [PAD, *plain[:3], BOS, *tokenizer.encode("ab"), PAD, *tokenizer.encode("d")]
    ids += [] if strings == ["bd"] else [tokenizer.eot_token, *plain[3:], PAD]
    shown = TOKENIZER.decode([id for id in ids if id < TOKENIZER.n_vocab - 1])
    expected = shown.partition("bd")[0] if strings == ["bd"] else shown
    text = TextStream(out := io.StringIO(), tokenizer, tokenizer.silent, False, stop=stop)
    for round in cut(ids, random.Random(1)):
        text.write_round(round)
    text.close()
    assert out.getvalue() == text.text == text_of(ids, tokenizer, stop) == expected


def first_end_of_bytes(ids, stop):
    """What a loop would have written."""
    for i in range(1, len(ids) + 1):
        if stop.ends(ids[:i]):
            return ids[:i]
    return ids


TALES = ("--temperature", 0, "--layout", "plain", "--max-new-tokens", 20)  # the bundled pair


def test_the_program_shows_text_and_reason(capsys):
    found = json.loads(ask(capsys, *TALES, "--json", "--stop", "zebra", "--stop", "t feast").out)
    for mode in ("baseline", "speculative"):
        assert found[mode]["finish_reason"] == "stop"
        assert found[mode]["text"] == " there was a grea"
        assert TOKENIZER.decode(found[mode]["tokens"]) == " there was a great feast"
    assert found["identical"] is True
    assert ask(capsys, *TALES, "--quiet", "--stop", "t feast").out == " there was a grea"


def test_escapes_are_read():
    from decoding.cli.options import parse

    assert parse(["--stop", r"a\nb\\n", "--stop", "\\t"]).stop == ["a\nb\\n", "\t"]


def test_what_does_not_go_together_is_refused(generate):
    assert "empty" in one_line(generate("--stop", ""))
    assert "--rejected" in one_line(generate("--stop", "a", "--rejected"))


def test_lines_of_a_prompts_file_end_at_it_too(capsys, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "Once upon a time"}\n', encoding="utf-8")
    found = json.loads(ask(capsys, *TALES, "--prompts-file", file, "--stop", "great").out)
    assert (found["finish_reason"], found["text"]) == ("stop", " there was a ")


def test_the_numbers_of_a_run_still_add_up():
    stop = Stop(["feast"], TOKENIZER)
    run = speculative_greedy(TARGET, DRAFT, PROMPT, N, gamma=8, stop=stop)
    assert isinstance(run, Generation) and run.finish_reason == "stop"
    assert run.new_tokens == run.accepted + run.corrections + run.bonuses


@pytest.mark.parametrize("loop", LOOPS)
def test_each_of_several_ids_ends_a_text(loop):
    whole = LOOPS[loop]().tokens
    for ends in ([whole[20], whole[9]], {whole[3], 4095}, whole[-1]):
        found = [ends] if isinstance(ends, int) else ends
        first = min(whole.index(end) for end in found if end in whole)
        run = LOOPS[loop](eos=ends)
        assert (run.tokens, run.finish_reason) == (whole[:first + 1], "eos")
