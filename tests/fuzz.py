"""`python -m tests.fuzz`: odd command lines, damaged files and random runs; ten minutes or so.

Not part of the tests: it finds what nobody thought of, and then deserves a test of its own. A
command is clean when it ends with code 0, or with 1 or 2 and one line that says why. A run is clean
when it writes what it should, counts right, and leaves no trace in global state.

Exit codes: 0 clean; 1 something was found.
"""
import argparse
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import torch

from decoding import Sampling, autoregressive, speculative_greedy, speculative_sampling
from decoding.coupling import Coupled, SharedNoise
from decoding.gamma import AdaptiveGamma
from tests.commands import END_OF_TEXT, N_CTX, write_pair
from weights import load_model

MOST_SECONDS = 60
SANE = {
    "decoding.generate": "--target ./target --draft ./draft --max-new-tokens 6",
    "decoding.benchmark": "--target ./target --draft ./draft --prompts prompts.txt --lengths 4 "
                          "--gammas 1 --temperatures 0 --repeats 1",
    "weights.train": "prompts.txt --target 1,1,8 --draft 1,1,8 --context 8 --steps 1 --batch 2",
    "weights.check": "./target",
    "decoding.bench.counting": "counting --size tiny",
}
OPTIONS = {
    "decoding.generate": "--prompt-file --target --draft --mode --gamma --max-new-tokens "
                         "--temperature --top-k --top-p --coupling --seed --device --dtype --color "
                         "--compile! --no-cache! --ignore-eos! --allow-special! --trace! --step! "
                         "--rejected! --json! --quiet! --list-models!",
    "decoding.benchmark": "--target --draft --gammas --lengths --temperatures --prompts --repeats "
                          "--seed --device --dtype --out --no-cache-arms! --eos! --resume! --tune!",
    "weights.train": "--out --target --draft --vocab --context --minutes --batch --dropout "
                     "--held-out --seed --device --resume!",
    "weights.check": "",
    "decoding.bench.counting": "--spoil --sharpness --noise --seed --dtype --prefix! --no-buffers!",
}
WORDS = ["", "0", "1", "2", "7", "-1", "0.5", "1.5", "nan", "-inf", "1e400", "5e-324", "9" * 30,
         "x", "é", "日本", "\udcff", "a\nb", "\033[2J", "-", "--", ".", "..", "/dev/null",
         "./target", "prompts.txt", "latin1.txt", "n" * 300, "./" + "n" * 300, "o/n",
         "gpt2", "auto", "lookup", "baseline", "speculative", "greedy", "gumbel",
         "float16", "bfloat16", "cpu", "cuda", "1,1,8", "2,2,9", "<|endoftext|>",
         "Once upon a time ", "p|q", "a b"]


def call(program: str, arguments: list[str], stdin: bytes = b"\n\xff\n") -> tuple[int, str, str]:
    """Return the exit code of a program, run in this process, and what it printed."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    read = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with (patch.dict(os.environ), patch.object(sys, "stdin", read), redirect_stdout(out),
          redirect_stderr(err)):
        signal.alarm(MOST_SECONDS)
        try:
            code = import_module(program).main(arguments)
        except SystemExit as stop:  # argparse's way to end
            code = stop.code
        except BaseException:
            code = -1
            traceback.print_exc()
        finally:
            signal.alarm(0)
    return code, *(stream.seek(0) or stream.read() for stream in (out, err))


def complaint(program: str, arguments: list[str]) -> str | None:
    """Run a program; return what is wrong with its answer, None if it is clean."""
    code, out, err = call(program, arguments)
    *_, last = ["", *err.splitlines()]
    verdict = program == "weights.check" and code == 1 and "FAIL: " in out
    if code == 0 or verdict or (code in (1, 2) and last.startswith(f"python -m {program}: ")):
        return None
    return f"python -m {program} {arguments}: code {code}\n{err}"


def odd_lines(dice: random.Random, n: int) -> Iterator[str | None]:
    """Yield what is wrong with each of n random command lines."""
    for _ in range(n):
        program = dice.choices(list(SANE), [6, 2, 2, 1, 1])[0]
        arguments = SANE[program].split()
        if program == "decoding.generate" and dice.random() < 0.5:
            arguments.append(dice.choice(WORDS))
        if program == "weights.check" and dice.random() < 0.8:
            arguments = [dice.choice(WORDS)]
        for option in dice.sample(OPTIONS[program].split(), min(dice.randrange(5),
                                                                len(OPTIONS[program].split()))):
            name = option.removesuffix("!")
            arguments += [name] if name != option else [name, dice.choice(WORDS)]
        if program in ("weights.train", "decoding.benchmark") and "--tune" not in arguments:
            arguments += ["--out", f"out{dice.randrange(10**9)}"] * ("--out" not in arguments)
        yield complaint(program, arguments)


def prepare() -> dict[str, list[str]]:
    """Write a pair, prompts, results and a checkpoint; return how to read each: {file: command}."""
    write_pair(Path())
    text = " ".join(f"The {i}th wolf said {i * i}." for i in range(99))
    Path("prompts.txt").write_text("=== wolves\n" + text[:40])
    Path("corpus.txt").write_text(text)
    Path("latin1.txt").write_bytes(b"caf\xe9")
    benchmark = ["decoding.benchmark", *SANE["decoding.benchmark"].split(), "--out", "results"]
    train = ["weights.train", *SANE["weights.train"].replace("prompts", "corpus").split(), "--out",
             "trained"]
    code, _, err = call(*as_call(benchmark))
    assert code == 0, err
    train_module = import_module("weights.training.pair")
    with patch.object(train_module.Trainer, "advance", side_effect=KeyboardInterrupt):
        call(*as_call(train))
    generate = ["decoding.generate", *SANE["decoding.generate"].split()]
    models = ("target/config.json", "target/model.safetensors", "target/vocabulary.tiktoken",
              "draft/model.safetensors")
    return {**dict.fromkeys(models, generate),
            "results/rows.jsonl": [*benchmark, "--resume"],
            "results/costs.json": [*benchmark, "--resume"],
            "trained/checkpoint.pt": [*train, "--resume"]}


def as_call(command: list[str]) -> tuple[str, list[str]]:
    return command[0], command[1:]


def damage(dice: random.Random, path: Path) -> bytes:
    """Return what is left of a file."""
    data, is_json = path.read_bytes(), path.suffix in (".json", ".jsonl")
    kind = dice.choice(["bit", "bytes", "cut", "hole", "insert", "swap", *["json"] * 4 * is_json])
    at, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    if kind == "bit":
        at = dice.randrange(min(len(data), 2000))  # where a header is
        return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1:]
    if kind == "json":
        lines = data.decode().splitlines() if path.suffix == ".jsonl" else [data.decode()]
        return "".join(json.dumps(spoil(dice, json.loads(line))) + "\n" for line in lines).encode()
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
    commands = prepare()
    shutil.copytree(".", "../sound", dirs_exist_ok=True)
    for _ in range(n):
        file = dice.choice(list(commands))
        folder = Path(file).parts[0]
        shutil.rmtree(folder)
        shutil.copytree(f"../sound/{folder}", folder)
        data = damage(dice, Path(file))
        Path(file).write_bytes(data)
        program, arguments = as_call(commands[file])
        wrong = complaint(program, arguments)
        yield None if wrong is None else f"{file} of {len(data)} bytes, {data[:300]!r}: {wrong}"
        shutil.copytree(f"../sound/{folder}", folder, dirs_exist_ok=True)


def random_runs(dice: random.Random, n: int) -> Iterator[str | None]:
    """Yield what is wrong with each of n runs. In float64 no near-tie decides."""
    target, draft = (load_model(Path(name), dtype=torch.float64) for name in ("target", "draft"))
    for _ in range(n):
        prompt = [dice.randrange(END_OF_TEXT + 1) for _ in range(dice.randint(1, N_CTX))]
        new, gamma = dice.randrange(60), dice.choice([0, 1, 2, 3, 4, 8, 99, AdaptiveGamma()])
        eos, seed = dice.choice([None, END_OF_TEXT, dice.randrange(256)]), dice.randrange(10**9)
        sampling = Sampling(dice.choice([0, 1e-8, 0.5, 1, 1.7, 100]),
                            dice.choice([None, 1, 3, 40, 999]), dice.choice([None, 1e-9, 0.5, 1.0]))
        what = f"seed {seed}: prompt {prompt}, {new} new, gamma {gamma}, eos {eos}, {sampling}"
        state = torch.random.get_rng_state()
        try:
            generator = torch.Generator().manual_seed(seed)
            run = speculative_sampling(target, draft, prompt, new, gamma=gamma, sampling=sampling,
                                       eos=eos, generator=generator)
            two = target, draft
            if not sampling.greedy:
                noise = SharedNoise(torch.Generator().manual_seed(seed))
                two = Coupled(target, sampling, noise), Coupled(draft, sampling, noise)
            plain = autoregressive(two[0], prompt, new, eos=eos)
            again = speculative_greedy(*two, prompt, new, gamma=gamma, eos=eos)
            ends = len(run.tokens) in (new, N_CTX + 1 - len(prompt)) or run.tokens[-1] == eos
            sound = (again.tokens == plain.tokens and ends and len(run.tokens) <= new
                     and 0 <= run.accepted <= run.tested <= run.drafted
                     and run.accepted + run.corrections + run.bonuses == len(run.tokens)
                     and eos not in run.tokens[:-1] and torch.is_grad_enabled()
                     and torch.equal(state, torch.random.get_rng_state()))
            found = f"{what} gave {run.tokens}, and {again.tokens} for {plain.tokens}"
            yield None if sound else found
        except Exception:
            yield f"{what}\n{traceback.format_exc()}"


def too_long(*_) -> None:
    raise TimeoutError(f"not done after {MOST_SECONDS} seconds")


def main() -> int:
    """Return 0 if all was clean, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    for name, default in (("lines", 300), ("files", 300), ("runs", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options, home, found = parser.parse_args(), Path.cwd(), 0
    os.environ["HF_HUB_OFFLINE"] = "1"
    signal.signal(signal.SIGALRM, too_long)
    torch.set_num_threads(1)
    kinds: dict[str, Callable[[random.Random, int], Iterator[str | None]]] = {
        "files": damaged_files, "lines": odd_lines, "runs": random_runs}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "work").mkdir()
        os.chdir(Path(folder) / "work")
        for name, fuzz in kinds.items():
            wrong = []
            for one in fuzz(random.Random(options.seed), getattr(options, name)):
                wrong += [one] if one is not None else []
            found += len(wrong)
            print(f"{getattr(options, name)} {name}: {len(wrong)} found", flush=True)
            print("\n".join(wrong), end="\n" * bool(wrong), flush=True)
        os.chdir(home)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
