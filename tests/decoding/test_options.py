"""Which command lines are refused, in one line and before torch is imported; what others mean."""
import json
import os
import re
from pathlib import Path

import pytest
import torch

from decoding.cli.models import list_models
from decoding.cli.options import make_parser, parse
from decoding.shapes import Shape, shape
from model import GPT2, OFFICIAL_CONFIGS
from tests.commands import Answer, one_line, run_script
from weights.registry import KNOWN_NAMES, OFFICIAL, OFFICIAL_BYTES, PUBLISHED

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
    (["--temperature", "0", "--rule", "block"], "--rule does nothing in greedy mode"),
    (["--rule", "token", "--coupling", "gumbel"], "--rule does nothing with --coupling"),
    (["--rule", "block", "--draft", "lookup"], "--rule block does nothing with --draft lookup"),
    (["--rule", "tree"], "'tree'"),
    (["--mode", "baseline", "--rule", "block"], "--rule does nothing in baseline mode"),
    (["--tree", "0x0"], "--tree: DEPTHxWIDTH, as in 4x2, for a chain with siblings, or the number"),
    (["--tree", "4x"], "each number is at least 1, not '4x'"),
    (["--tree", "4x2x2"], "not '4x2x2'"),
    (["--tree", "2,-1"], "not '2,-1'"),
    (["--tree", "wide"], "not 'wide'"),
    (["--tree", "9,9,9,9"], "a tree has at most 1024 tokens, and '9,9,9,9' has 7380"),
    (["--tree", "99999999999x2"], "a tree has at most 1024 tokens"),
    (["--tree", "4x2", "--gamma", "0"], "--gamma does nothing with --tree"),
    (["--tree", "4x2", "--rule", "token"], "--rule does nothing with --tree"),
    (["--tree", "4x2", "--compile"], "a tree's passes are not recorded, they run plain"),
    (["--tree", "4x2", "--draft", "lookup"], "--tree needs a draft model"),
    (["--mode", "baseline", "--tree", "4x2"], "--tree does nothing in baseline mode"),
    (["--mode", "baseline", "--draft", "gpt2"], "--draft does nothing in baseline mode"),
    (["--mode", "baseline", "--gamma", "0"], "--gamma does nothing in baseline mode"),
    (["--mode", "baseline", "--trace"], "--trace does nothing in baseline mode"),
    (["--mode", "baseline", "--step"], "--step does nothing in baseline mode"),
    (["--mode", "baseline", "--color", "always"], "--color does nothing in baseline mode"),
    (["--json", "--color", "never"], "--color does nothing with --json"),
    (["--mode", "baseline", "--rejected"], "--rejected does nothing in baseline mode"),
    (["--json", "--rejected"], "--rejected does nothing with --json"),
    (["--quiet", "--rejected"], "--quiet prints nothing but the text"),
    (["--tree", "4x2", "--rejected"], "--rejected does nothing with --tree"),
    (["--prompts-file", "there", "--rejected"], "--rejected is for one text"),
    (["--prompts-file", "there", "--record", "r.json"], "--record is for one text"),
    (["--quiet", "--trace"], "--quiet would silence --trace"),
    (["--quiet", "--mode", "compare"], "--quiet would silence the comparison"),
    (["--step", "--prompt-file", "-"], "--step waits for Enter on stdin"),
    (["Once", "--prompt-file", "there"], "PROMPT or --prompt-file, not both"),
    (["Once", "upon"], "unrecognized arguments: upon; a prompt of several words needs quotes"),
    (["-x"], "unrecognized arguments: -x; a prompt that begins with - goes last, after --"),
    (["--stop", "-x"], "expected one argument; one that begins with - goes after ="),
    (["--prompt-file="], "argument --prompt-file: must not be empty"),
    (["--prompts-file="], "argument --prompts-file: must not be empty"),
    (["--record="], "argument --record: must not be empty"),
    (["--gam", "3"], "unrecognized arguments: --gam"),
    (["--at-once", "2"], "--at-once does nothing without --prompts-file"),
    (["--prompts-file", "there", "--at-once", "0"], "--at-once: must be a whole number"),
    (["--prompts-file", "there", "Once"], "one of PROMPT, --prompt-file and --prompts-file"),
    (["--prompts-file", "there", "--prompt-file", "here"], "one of PROMPT"),
    (["--prompts-file", "there", "--compile"], "and runs plain"),
    (["--prompts-file", "there", "--json"], "which always prints JSON"),
    (["--prompts-file", "there", "--color", "never"], "--color does nothing with --prompts-file"),
    (["--prompts-file", "there", "--mode", "compare"], "python -m decoding.bench.batches"),
    (["--prompts-file", "there", "--gamma", "auto"], "--gamma auto follows the costs of one text"),
    (["--prompts-file", "there", "--coupling", "gumbel"], "--coupling is for one text"),
    (["--prompts-file", "there", "--no-cache"], "--no-cache is for one text"),
    (["--prompts-file", "there", "--trace"], "--trace is for one text"),
    (["--prompts-file", "there", "--step"], "--step is for one text"),
    (["--prompts-file", "nowhere.jsonl"],
     "cannot read the prompts file nowhere.jsonl: No such file"),
    (["--prompts-file", "."], "cannot read the prompts file .: Is a directory"),
    (["--prompts-file", os.devnull], f"the prompts file {os.devnull} has no prompt"),
    (["--two\nlines"], "unrecognized arguments: --two lines"),
    (["--processes", "0"], "--processes: must be a whole number of at least 1"),
    (["--mode", "both"], "'both'"),
    (["--device", "tpu"], "'tpu'"),
    (["--dtype", "int8"], "'int8'"),
    (["--layout", "curved"], "'curved'"),
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
    lines = [" ".join(line.split()) for line in without_torch(LIST).out.splitlines()]
    assert lines[:2] == ["tales-large bundled 22 MB draft: tales-small", "tales-small bundled 6 MB"]
    assert re.fullmatch("gpt2-xl (to download|in the cache) 6,432 MB draft: gpt2", lines[5])
    assert re.fullmatch("meta-llama/Llama-3.2-3B (to ask for|in the cache) 6,425 MB draft: "
                        "meta-llama/Llama-3.2-1B", lines[12])
    assert [line.split()[0] for line in lines] == KNOWN_NAMES
    code, out, err = without_torch(HELP)
    assert (code, err) == (0, "")
    assert all(option in out for option in OPTIONS)


def test_what_is_in_the_cache_is_said_and_how_large_a_download_is(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    before = list_models()
    assert before.count("to convert") == before.count("to ask for") == 2
    repository, sharded = OFFICIAL["gpt2-large"], PUBLISHED["meta-llama/Llama-3.2-3B"]
    for name, revision, file in [(repository.id, repository.revision, "model.safetensors"),
                                 ("meta-llama/Llama-3.2-3B", sharded.revision,
                                  "model.safetensors.index.json")]:
        folder = tmp_path / f"models--{name.replace('/', '--')}/snapshots" / revision
        folder.mkdir(parents=True)
        (folder / file).touch()
    lines = list_models().splitlines()
    assert re.match("gpt2-large +in the cache +3,247 MB", lines[4])
    assert re.match("meta-llama/Llama-3.2-3B +in the cache +6,425 MB", lines[12])
    assert "\n".join(lines).count("in the cache") == 2
    for name, config in OFFICIAL_CONFIGS.items():
        with torch.device("meta"):
            parameters = sum(parameter.numel() for parameter in GPT2(config).parameters())
        masks = config.n_layer * config.n_ctx**2  # which these files hold, too
        assert 0 < OFFICIAL_BYTES[name] - 4 * (parameters + masks) < 1e5  # their names


TESTS = Path(__file__).parents[1]


def test_every_option_is_tried():
    names = ["decoding/test_generate.py", "decoding/test_prompts_file.py",
             "decoding/test_recording.py", "decoding/test_report.py", "decoding/test_stop.py",
             "decoding/test_streaming.py", "decoding/test_processes_end.py",
             "model/test_cuda_graphs.py"]
    tests = "".join((TESTS / name).read_text(encoding="utf-8") for name in names)
    untried = [option for option in OPTIONS if f'"{option}"' not in tests]
    assert untried == ["--help", "--list-models"]


def test_what_is_left_open_is_filled_in():
    assert vars(parse(["--seed", "7"])) == {
        "prompt": "Once upon a time", "prompt_file": None, "prompts_file": None, "at_once": None,
        "target": "tales-large", "draft": "tales-small", "mode": "compare", "gamma": 4,
        "tree": None, "max_new_tokens": 200, "temperature": 0.8, "top_k": None, "top_p": None,
        "rule": "token", "coupling": None, "seed": 7,
        "device": "auto", "dtype": "float32", "layout": "auto", "compile": False,
        "processes": None, "no_cache": False, "stop": None, "ignore_eos": False,
        "allow_special": False, "trace": False,
        "step": False, "rejected": False, "record": None, "json": False, "color": "auto",
        "quiet": False, "list_models": False}
    assert parse(["--target", "gpt2-large"]).draft == parse(["--target", "gpt2-xl"]).draft == "gpt2"
    assert parse(["--mode", "baseline"]).draft is None
    for nothing_to_choose in (["--mode", "baseline"], ["--temperature", "0"],
                              ["--coupling", "gumbel"], ["--tree", "4x2"]):
        assert parse(nothing_to_choose).rule is None
    assert parse(["--tree", "4,2,2,1"]).gamma is None


def test_the_shapes_of_trees():
    assert shape("4x2") == Shape([2, 2, 2, 2], True, 8)
    assert shape("4,2,2,1") == Shape([4, 2, 2, 1], False, 4 + 8 + 16 + 16)
    assert shape("3").depth == 1 and shape("3").nodes == 3
    assert parse(["--quiet"]).mode == "speculative"
    assert parse(["--step"]).trace
    assert len({parse([]).seed for _ in range(5)}) > 1
    assert parse(["--temperature", "0"]).seed is None
