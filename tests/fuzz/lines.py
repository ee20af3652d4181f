"""Odd command lines: of a command that is right, some options are added, often with odd values."""
import random
from collections.abc import Iterator
from pathlib import Path

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

# {a command that is right: how often it is taken}
SANE = {GENERATE: 4, f"{GENERATE} --prompts-file prompts.jsonl --temperature 0.8": 3,
        f"{GENERATE} --tree 2x2": 2, f"{GENERATE} --temperature 0 --record run.json": 2,
        f"{GENERATE} --rule block --temperature 1": 1, BENCHMARK: 3, TRAIN: 3, EVALUATE: 2,
        f"{GENERATE} --processes 2": 1, JOIN: 1,
        f"{EVALUATE} --stand-in --target gpt2 --draft gpt2-medium --out stood": 1,
        "weights.check ./target": 2, "weights.check ./hub": 1,
        "weights.convert ./target converted": 1, "decoding.animation --out run.svg": 1,
        "tutorials.grade answers.py": 2, "decoding.bench.counting counting --size tiny": 1}
OPTIONS = {
    "decoding.generate": "--prompt-file --prompts-file --at-once --target --draft --mode --gamma "
                         "--tree --rule --max-new-tokens --temperature --top-k --top-p --coupling "
                         "--seed --device --dtype --layout --color --stop --record --compile! "
                         "--no-cache! --processes --ignore-eos! --allow-special! --trace! --step! "
                         "--rejected! --json! --quiet! --list-models!",
    "decoding.benchmark": "--target --draft --gammas --rules --trees --lengths --temperatures "
                          "--prompts --repeats --seed --device --dtype --layout --out "
                          "--processes --stand-in! --no-cache-arms! --eos! --resume! --tune! @",
    "decoding.evaluate": "--task --metric --prompt-template --limit --samples --out --target "
                         "--draft --gamma --tree --rule --stop --temperature --top-k --top-p "
                         "--seed --device --dtype --layout --run-generated-code! --stand-in! @",
    "weights.train": "--out --target --draft --vocab --context --minutes --batch --dropout "
                     "--held-out --seed --device --resume!",
    "decoding.bench.join": "", "weights.check": "", "weights.convert": "",
    "decoding.animation": "--out", "tutorials.grade": "--seed --json!",
    "decoding.bench.counting": "--spoil --sharpness --noise --seed --dtype --prefix! --no-buffers!",
}
# How often the first argument is odd.
FIRST = {"decoding.generate": 0.5, "decoding.bench.join": 0.6, "weights.check": 0.8,
         "tutorials.grade": 0.6, "weights.convert": 0.6, "weights.train": 0.3}
# What an option is meant for; half of the values are among them.
MEANT = {
    "--prompts-file": ["prompts.jsonl", "-", "prompts.txt", "latin1.txt"],
    "--tree": ["2x2", "4x1", "1x3", "0x2", "2x0", "2,1", "3x2x1", "999x2", "2x999"],
    "--trees": ["2x2", "4x1", "1x3", "0x2", "2x999"], "--rule": ["token", "block"],
    "--rules": ["token", "block"],
    "--layout": ["auto", "plain", "rows", "strips", "slabs", "onednn"],
    "--record": ["run.json", "o/run.json", "/dev/null", "target", "/dev/full"],
    "--draft": ["./draft", "lookup", "./hub"], "--temperature": ["0", "1", "0.8"],
    "--temperatures": ["0", "1"], "--mode": ["compare", "speculative", "baseline"],
    "--at-once": ["1", "2", "99"], "--stop": ["e", r"\n", "said", ""],
    "--metric": ["exact", "rouge", "pass@1"], "--task": ["task.jsonl", "prompts.jsonl", "xsum"],
    "--out": ["out", "run.svg", "/dev/full", "target", "prompts.txt"],
    "@": ["options.args", "latin1.txt", "none", "target", "/dev/null"],
    "--target": ["./target", "./hub", "gpt2", "facebook/opt-125m"], "--processes": ["1", "2"],
    "--dtype": ["float32", "bfloat16", "float16", "auto"], "--gamma": ["0", "1", "auto"],
    "--coupling": ["gumbel"], "--color": ["always", "never"],
}
WORDS = ["", "0", "1", "2", "7", "-1", "0.5", "1.5", "nan", "-inf", "1e400", "5e-324", "9" * 30,
         "x", "é", "日本", "\udcff", "a\nb", "\033[2J", "-", "--", ".", "..", "/dev/null",
         "./target", "prompts.txt", "latin1.txt", "n" * 300, "./" + "n" * 300, "o/n",
         "gpt2", "auto", "lookup", "baseline", "speculative", "greedy", "gumbel",
         "float16", "bfloat16", "cpu", "cuda", "1,1,8", "2,2,9", "<|endoftext|>",
         "Once upon a time ", "p|q", "a b", "2x2", "block", "@x", "a\0b"]


def odd_lines(dice: random.Random, n: int) -> Iterator[str | None]:
    """Yield what is wrong with each of n random command lines."""
    write_inputs()
    write_hub_folder(Path("hub"))
    if not Path("joined").exists():  # the damaged files had it, too
        call([*BENCHMARK.split(), "--out", "joined"])
    for _ in range(n):
        yield complaint(odd_line(dice))


def odd_line(dice: random.Random) -> list[str]:
    """Return a command with up to four more options."""
    command = dice.choices(list(SANE), list(SANE.values()))[0].split()
    program = command[0]
    if dice.random() < FIRST.get(program, 0):
        first = [] if program == "decoding.generate" else command[1:2]
        command[1:1 + len(first)] = [dice.choice(WORDS)]
    options = OPTIONS[program].split()
    for option in dice.sample(options, min(dice.randrange(5), len(options))):
        command += with_value(dice, option)
    if program in ("weights.train", "decoding.benchmark") and "--tune" not in command:
        command += ["--out", f"out{dice.randrange(10**9)}"] * ("--out" not in command)
    return command


def with_value(dice: random.Random, option: str) -> list[str]:
    """Return an option as it stands on a command line."""
    if option.endswith("!"):
        return [option.removesuffix("!")]
    words = MEANT[option] if option in MEANT and dice.random() < 0.6 else WORDS
    value = dice.choice(words)
    return ["@" + value] if option == "@" else [option, value]
