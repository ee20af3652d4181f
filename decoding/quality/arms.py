"""Both loops on every problem: the same prompts, the same stops; what came of it as rows."""
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from decoding.cli.run import warm_up
from decoding.cli.session import Session
from decoding.quality.rows import ARMS, Row, Rows
from decoding.quality.scores import Scores
from decoding.quality.tasks import Problem, Question
from decoding.result import Generation
from weights.console import LARGEST_SEED
from weights.terminal import show_in_place

Score = Callable[[Problem, str], Scores]


def answer_all(session: Session, questions: list[Question], samples: int, rows: Rows,
               settings: Row, score: Score | None) -> list[Row]:
    """Answer by both loops what has no row yet, and score what has no score. Return the rows.

    samples: of each problem. score: None leaves the scores open.
    Raises KeyboardInterrupt, with what is kept, when interrupted; ValueError for a row of another
    prompt.
    """
    answers = []
    jobs = [(question, sample) for question in questions for sample in range(samples)]
    rescored = False
    if len(rows) < len(jobs):
        warm_up(session)
    try:
        for number, (question, sample) in enumerate(jobs):
            if sys.stderr.isatty():
                show_in_place(f"answer {number + 1} of {len(jobs)}")
            row = rows.done.get((question.problem.name, sample))
            if row is None:
                row = answer(session, question, sample, settings, score)
                rows.append(row)
            elif row["prompt_sha256"] != digest(question.prompt.ids):
                raise ValueError(f"{rows.path} has an answer to another prompt of problem "
                                 f"{row['problem']}; choose another --out")
            elif score is not None and row["plain"]["scores"] is None:
                for arm in ARMS:
                    row[arm]["scores"] = score(question.problem, row[arm]["text"])
                rescored = True
            answers.append(row)
    except KeyboardInterrupt:
        where = "" if rows.path is None else f"; {len(rows)} rows are in {rows.path}, go on there"
        raise KeyboardInterrupt(f"{len(rows)} of {len(jobs)} answers were made{where}") from None
    finally:
        if rescored:
            rows.rewrite()
        show_in_place("")
    return answers


def answer(session: Session, question: Question, sample: int, settings: Row,
           score: Score | None) -> Row:
    """Return the row of one sample."""
    session.prompt = question.prompt
    budget, seed = session.options.max_new_tokens, session.options.seed
    runs = {}
    for arm in ARMS:
        own = None if seed is None else seed_of(seed, question.problem.name, sample, arm)
        rounds = (session.baseline if arm == "plain" else session.speculative)(budget, own)
        runs[arm] = Generation(list(rounds), 0 if arm == "plain" else session.most_kept)
    difference = None
    if session.sampling.greedy:
        found = session.first_difference(*runs.values())
        difference = None if found is None else asdict(found) | {"verdict": found.verdict}
    ids = question.prompt.ids
    return {"problem": question.problem.name, "sample": sample, "prompt_sha256": digest(ids),
            "difference": difference, "settings": settings} | {
            arm: describe(run, session.text_of(run.tokens), question.problem, score)
            for arm, run in runs.items()}


def describe(run: Generation, text: str, problem: Problem, score: Score | None) -> Row:
    """Return one loop's part of a row."""
    return {"text": text, "ids_sha256": digest(run.tokens), "finish_reason": run.finish_reason,
            "new_tokens": run.new_tokens, "rounds": len(run.rounds), "drafted": run.drafted,
            "tested": run.tested, "accepted": run.accepted, "seconds": run.decode_seconds,
            "scores": None if score is None else score(problem, text)}


def seed_of(*parts: int | str) -> int:
    """Return the seed of one answer of one loop: all are different, so that they are independent.

    It depends on nothing but the parts, so a run that is taken up goes on as it would have.
    """
    return int(hashlib.sha256(repr(parts).encode()).hexdigest(), 16) % (LARGEST_SEED + 1)


def digest(ids: list[int]) -> str:
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()


def faults(rows: list[Row]) -> Iterator[Row]:
    """Yield the rows whose greedy texts differ by more than rounding."""
    for row in rows:
        if row["difference"] is not None and row["difference"]["verdict"] != "near-tie":
            yield row
