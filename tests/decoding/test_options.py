"""Which command lines are refused, in one line and before torch is imported; what others mean."""
import json
from pathlib import Path

import pytest

from decoding.cli.options import make_parser, parse
from tests.commands import Answer, one_line, run_script

REFUSED = [  # arguments, and words of the one line that says why
    (["--gamma", "-1"], "--gamma: must be a whole number from 0"),
    (["--gamma", "1000000000"], "--gamma: must be a whole number from 0 to 1024"),
    (["--gamma", "1.5"], "'1.5'"),
    (["--max-new-tokens", "-1"], "--max-new-tokens: must be a whole number of at least 0"),
    (["--temperature", "-0.1"], "--temperature: must be a finite number of at least 0"),
    (["--temperature", "nan"], "'nan'"),
    (["--temperature", "inf"], "'inf'"),
    (["--temperature", "1e999"], "'1e999'"),
    (["--temperature", "warm"], "'warm'"),
    (["--temperature", "1", "--top-k", "0"], "--top-k: must be a whole number of at least 1"),
    (["--temperature", "1", "--top-p", "0"], "--top-p: must be above 0 and at most 1"),
    (["--temperature", "1", "--top-p", "1.1"], "'1.1'"),
    (["--temperature", "1", "--top-p", "nan"], "'nan'"),
    (["--temperature", "1", "--seed", "-1"], "--seed: must be a whole number"),
    (["--temperature", "1", "--seed", "4294967296"], "to 4294967295"),
    (["--temperature", "0", "--seed", "0"], "--seed does nothing in greedy mode"),
    (["--temperature", "0", "--top-k", "5"], "--top-k does nothing in greedy mode"),
    (["--temperature", "0", "--top-p", "0.5"], "--top-p does nothing in greedy mode"),
    (["--temperature", "0", "--coupling", "gumbel"], "--coupling does nothing in greedy mode"),
    (["--mode", "baseline", "--draft", "gpt2"], "--draft does nothing in baseline mode"),
    (["--mode", "baseline", "--gamma", "0"], "--gamma does nothing in baseline mode"),
    (["--mode", "baseline", "--trace"], "--trace does nothing in baseline mode"),
    (["--mode", "baseline", "--step"], "--step does nothing in baseline mode"),
    (["--mode", "baseline", "--color", "always"], "--color does nothing in baseline mode"),
    (["--json", "--color", "never"], "--color does nothing with --json"),
    (["--quiet", "--trace"], "--quiet would silence --trace"),
    (["--quiet", "--mode", "compare"], "--quiet would silence the comparison"),
    (["--step", "--prompt-file", "-"], "--step waits for Enter on stdin"),
    (["Once", "--prompt-file", "there"], "PROMPT or --prompt-file, not both"),
    (["Once", "upon"], "unrecognized arguments: upon"),
    (["--gam", "3"], "unrecognized arguments: --gam"),
    (["--two\nlines"], "unrecognized arguments: --two lines"),
    (["--mode", "both"], "'both'"),
    (["--device", "tpu"], "'tpu'"),
    (["--dtype", "int8"], "'int8'"),
    (["--linear", "curved"], "'curved'"),
    (["--color", "red"], "'red'"),
    (["--target", "tales"], "unknown model 'tales'; known are tales-large"),
    (["--draft", "tales"], "unknown model 'tales'"),
    (["--target", "./nowhere"], "there is no folder nowhere"),
    (["--target", "gpt2"], "no draft is known for gpt2; name one with --draft"),
    (["--target", "someone/gpt2"], "no draft is known for someone/gpt2"),
    (["--prompt-file", "nowhere.txt"], "cannot read the prompt file nowhere.txt: No such file"),
    (["--prompt-file", "."], "cannot read the prompt file .: Is a directory"),
    (["a " * 2000], "the prompt has 2001 tokens, but the target's context is 1024"),
    (["--target", "tales-large", "--draft", "gpt2"],
     "different vocabularies: 4096 tokens against 50257"),
    (["--target", "gpt2", "--mode", "baseline", "a " * 2000], "the target's context is 1024"),
    (["\udcff"], "the prompt is not UTF-8"),
    (["\ud800"], "the prompt is not UTF-8"),
]
WITHOUT_TORCH = """
import contextlib, io, json, sys
sys.modules["torch"] = None  # whoever imports it fails
from decoding.generate import main

def ask(arguments):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))

print(json.dumps([ask(arguments) for arguments in json.load(sys.stdin)]))
"""
HELP, LIST = ["--help"], ["--list-models"]
OPTIONS = [option for action in make_parser()._actions
           for option in action.option_strings if option != "-h"]


@pytest.fixture(scope="module")
def without_torch():
    """What the program answers where torch cannot be imported, in one process for all."""
    asked = [HELP, LIST, *(arguments for arguments, _ in REFUSED)]
    result = run_script(WITHOUT_TORCH, input=json.dumps(asked).encode())
    assert result.returncode == 0, result.stderr.decode()
    return lambda arguments: Answer(*json.loads(result.stdout)[asked.index(arguments)])


@pytest.mark.parametrize("arguments, words", REFUSED)
def test_refused_in_one_line_without_torch(without_torch, arguments, words):
    assert words in one_line(without_torch(arguments))


def test_help_and_the_list_of_models_need_no_torch(without_torch):
    lines = without_torch(LIST).out.splitlines()
    assert lines[:3] == ["tales-large   draft: tales-small", "tales-small", "gpt2"]
    code, out, err = without_torch(HELP)
    assert (code, err) == (0, "")
    assert all(option in out for option in OPTIONS)


TESTS = Path(__file__).parents[1]


def test_every_option_is_tried():
    names = ["decoding/test_generate.py", "decoding/test_recording.py", "decoding/test_report.py",
             "decoding/test_streaming.py", "model/test_cuda_graphs.py"]
    tests = "".join((TESTS / name).read_text(encoding="utf-8") for name in names)
    untried = [option for option in OPTIONS if f'"{option}"' not in tests]
    assert untried == ["--help", "--list-models"]


def test_what_is_left_open_is_filled_in():
    assert vars(parse(["--seed", "7"])) == {
        "prompt": "Once upon a time", "prompt_file": None, "target": "tales-large",
        "draft": "tales-small", "mode": "compare", "gamma": 4, "max_new_tokens": 200,
        "temperature": 0.8, "top_k": None, "top_p": None, "coupling": None, "seed": 7,
        "device": "auto", "dtype": "float32", "linear": "auto", "compile": False,
        "no_cache": False, "ignore_eos": False, "allow_special": False, "trace": False,
        "step": False, "record": None, "json": False, "color": "auto", "quiet": False,
        "list_models": False}
    assert parse(["--target", "gpt2-large"]).draft == parse(["--target", "gpt2-xl"]).draft == "gpt2"
    assert parse(["--mode", "baseline"]).draft is None
    assert parse(["--quiet"]).mode == "speculative"
    assert parse(["--step"]).trace
    assert len({parse([]).seed for _ in range(5)}) > 1
    assert parse(["--temperature", "0"]).seed is None
