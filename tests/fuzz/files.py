"""Damaged files: each is damaged in many ways, and read by the program whose file it is."""
import json
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from decoding.picture import draw_run
from decoding.recording import read_recording
from tests.fuzz.calls import (
    BENCHMARK,
    EVALUATE,
    GENERATE,
    JOIN,
    TRAIN,
    call,
    complaint,
    write_hub_folder,
    write_inputs,
)

Reader = Callable[[], str | None]  # reads a file again; returns what is wrong, None if it is clean


def prepare() -> dict[str, Reader]:
    """Write every kind of file. Return how each is read: {file: reader}."""
    write_inputs()
    for folder, name in (("prompts", "prompts.jsonl"), ("task", "task.jsonl"),
                         ("text", "prompts.txt"), ("answers", "answers.py")):
        Path(folder).mkdir()
        Path(name).rename(f"{folder}/{name}")
    Path("recorded").mkdir()
    notebook = {"cells": [{"cell_type": "code", "source": [Path("answers/answers.py").read_text()],
                           "metadata": {}, "outputs": [], "execution_count": None}],
                "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    Path("answers/answers.ipynb").write_text(json.dumps(notebook))
    benchmark = [*BENCHMARK.replace("prompts.txt", "text/prompts.txt").split(), "--out", "results"]
    benchmark += ["--rules", "token", "block", "--trees", "2x1"]
    evaluate = [*EVALUATE.replace("task.jsonl", "task/task.jsonl").split(), "--out", "evaluated"]
    train, generate = [*TRAIN.split(), "--out", "trained"], GENERATE.split()
    batch = [*generate, "--prompts-file", "prompts/prompts.jsonl", "--at-once", "2"]
    record = [*generate, "--temperature", "1", "--seed", "1", "--record", "recorded/run.json"]
    for command in (benchmark, evaluate, record):
        code, _, err = call(command)
        assert code == 0, err
    Path("joined").mkdir()
    shutil.copy("results/rows.jsonl", "joined")
    write_hub_folder(Path("hub"))
    hub = GENERATE.replace("--target ./target", "--target ./hub").split()
    for command in (JOIN.split(), hub):
        code, _, err = call(command)
        assert code == 0, err
    with patch.object(import_module("weights.training.pair").Trainer, "advance",
                      side_effect=KeyboardInterrupt):
        call(train)
    commands = {"target/config.json": generate, "target/model.safetensors": generate,
                "target/vocabulary.tiktoken": generate, "draft/model.safetensors": generate,
                "draft/config.json": ["weights.check", "./draft"],
                "results/rows.jsonl": [*benchmark, "--resume"],
                "results/costs.json": [*benchmark, "--resume"],
                **{f"hub/{path.name}": hub for path in sorted(Path("hub").iterdir())},
                "joined/rows.jsonl": JOIN.split(), "evaluated/answers.jsonl": evaluate,
                "task/task.jsonl": evaluate,
                "trained/checkpoint.pt": [*train, "--resume"], "prompts/prompts.jsonl": batch,
                "text/prompts.txt": [*benchmark[:-6], "--tune"],
                "answers/answers.py": ["tutorials.grade", "answers/answers.py"],
                "answers/answers.ipynb": ["tutorials.grade", "answers/answers.ipynb", "--json"]}
    readers: dict[str, Reader] = {name: partial(complaint, command)
                                  for name, command in commands.items()}
    return {**readers, "recorded/run.json": draw_recording}


def draw_recording() -> str | None:
    """Read a recording and draw it: what is no recording is refused, and nothing else is wrong."""
    try:
        run = read_recording(Path("recorded/run.json"))
    except ValueError as error:
        return None if "\n" not in str(error) else str(error)
    except Exception:
        return traceback.format_exc()
    try:
        draw_run(run)
        assert run.accepted + run.corrections + run.bonuses == len(run.tokens) == run.new_tokens
        assert len(run.stats()["histogram"]) == run.gamma + 1
    except Exception:
        return f"read as {run}\n{traceback.format_exc()}"
    return None


def damage(dice: random.Random, path: Path) -> bytes:
    """Return what is left of a file."""
    data, is_json = path.read_bytes(), path.suffix in (".json", ".jsonl", ".ipynb")
    kind = dice.choice(["bit", "bytes", "cut", "hole", "insert", "swap", *["json"] * 4 * is_json])
    at, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    if kind == "bit":
        at = dice.randrange(min(len(data), 2000))  # where a header is
        return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1:]
    if kind == "json":
        lines = data.decode().splitlines() if path.suffix == ".jsonl" else [data.decode()]
        return "".join(json.dumps(spoil(dice, json.loads(line))) + "\n"
                       for line in lines if line).encode()
    noise = dice.randbytes(dice.randrange(1, 9))
    return {"bytes": data[:at] + noise + data[at + len(noise):], "cut": data[:at],
            "hole": data[:at] + data[end:], "insert": data[:at] + noise + data[at:],
            "swap": data[at:] + data[:at]}[kind]


def spoil(dice: random.Random, value: object) -> object:
    """Return a JSON value with one part of it missing, or another."""
    if dice.random() < 0.2 or not value or not isinstance(value, dict | list):
        return dice.choice([None, True, -1, 0, 2, 1.5, 10**30, "", "x", [], {}, [1], {"a": 1}])
    part = dice.choice(list(value)) if isinstance(value, dict) else dice.randrange(len(value))
    if dice.random() < 0.2:
        del value[part]
    else:
        value[part] = spoil(dice, value[part])
    return value


def damaged_files(dice: random.Random, n: int) -> Iterator[str | None]:
    """Yield what is wrong after each of n damages."""
    readers = prepare()
    shutil.copytree(".", "../sound", dirs_exist_ok=True)
    for _ in range(n):
        file = dice.choice(list(readers))
        folder = Path(file).parts[0]
        data = damage(dice, Path(file))
        Path(file).write_bytes(data)
        wrong = readers[file]()
        yield None if wrong is None else f"{file} of {len(data)} bytes, {data[:300]!r}: {wrong}"
        shutil.rmtree(folder)
        shutil.copytree(f"../sound/{folder}", folder)
