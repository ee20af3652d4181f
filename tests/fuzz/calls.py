"""Calls a program in this process, and says what is wrong with its answer."""
import io
import json
import os
import signal
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from safetensors.torch import load_file

from tests.commands import END_OF_TEXT, write_pair
from tests.weights.test_shards import write_shards
from weights.hub_vocabulary import BYTES

MOST_SECONDS = 60
PAIR = "--target ./target --draft ./draft"
GENERATE = f"decoding.generate {PAIR} --max-new-tokens 6"
BENCHMARK = (f"decoding.benchmark {PAIR} --prompts prompts.txt --lengths 4 --gammas 1 "
             "--temperatures 0 --repeats 1")
TRAIN = "weights.train corpus.txt --target 1,1,8 --draft 1,1,8 --context 8 --steps 1 --batch 2"
EVALUATE = f"decoding.evaluate {PAIR} --task task.jsonl --metric exact --max-new-tokens 4"
JOIN = "decoding.bench.join joined"
ANSWERS = "def next_token(logits):\n    return logits[-1].argmax().item()\n"
VERDICTS = {"weights.check": "FAIL: ", "tutorials.grade": "correct"}  # of code 1


def write_inputs() -> None:
    """Write, into the working folder, a pair, prompts, problems, answers and texts."""
    write_pair(Path())
    text = " ".join(f"The {i}th wolf said {i * i}." for i in range(99))
    Path("prompts.txt").write_text("=== wolves\n" + text[:40])
    Path("corpus.txt").write_text(text)
    Path("latin1.txt").write_bytes(b"caf\xe9")
    Path("prompts.jsonl").write_text(
        '{"prompt": "Once"}\n\n{"prompt": "The wolf", "max_new_tokens": 2}\n{"prompt": "a b"}\n')
    Path("task.jsonl").write_text('{"prompt": "Once", "reference": "upon"}\n'
                                  '{"prompt": "The wolf", "reference": "said"}\n')
    Path("answers.py").write_text(ANSWERS)
    Path("options.args").write_text("--gammas 1 2  # few\n--rules block\n")


def write_hub_folder(folder: Path) -> None:
    """Write the target once more as the hub has models: in two shards, with a tokenizer.json."""
    folder.mkdir(exist_ok=True)
    config = json.loads(Path("target/config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": END_OF_TEXT}))
    write_shards(folder, load_file("target/model.safetensors"), n=2)
    vocabulary = {"model": {"type": "BPE", "vocab": BYTES, "merges": []},
                  "added_tokens": [{"id": END_OF_TEXT, "content": "<|endoftext|>",
                                    "special": True}],
                  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))


def call(command: list[str], stdin: bytes = b"\n\xff\n") -> tuple[int, str, str]:
    """Return the exit code of a program, run in this process, and what it printed.

    command: the module, then its arguments.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    read = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with (patch.dict(os.environ), patch.object(sys, "stdin", read), redirect_stdout(out),
          redirect_stderr(err)):
        signal.alarm(MOST_SECONDS)
        try:
            code = import_module(command[0]).main(command[1:])
        except SystemExit as stop:  # argparse's way to end
            code = stop.code
        except BaseException:
            code = -1
            traceback.print_exc()
        finally:
            signal.alarm(0)
    return code, *(stream.seek(0) or stream.read() for stream in (out, err))


def complaint(command: list[str]) -> str | None:
    """Run a program; return what is wrong with its answer, None if it is clean."""
    program = command[0]
    code, out, err = call(command)
    *_, last = ["", *err.splitlines()]
    verdict = code == 1 and VERDICTS.get(program, "\0") in out
    lines = program == "decoding.generate" and code == 2 and ", line " in err  # a prompts file's
    if code == 0 or verdict or lines or (
            code in (1, 2) and last.startswith(f"python -m {program}: ")):
        return None if "Traceback" not in err else f"{command}: a traceback\n{err}"
    return f"python -m {' '.join(map(repr, command))}: code {code}\n{err}"


def too_long(*_) -> None:
    raise TimeoutError(f"not done after {MOST_SECONDS} seconds")
