"""What came of a run: a table, sentences that explain it, and an object for --json."""
import argparse

from decoding.cli.models import LOOKUP
from decoding.result import Generation, ratio
from weights.console import number
from weights.registry import DEFAULT_TARGET


def table(runs: dict[str, Generation]) -> str:
    """Return the numbers of the runs, a column each; what a run has no value for is n/a."""
    rows: dict[str, list[str]] = {
        "new tokens": [str(run.new_tokens) for run in runs.values()],
        "tokens/s": [number(run.tokens_per_second, ".1f") for run in runs.values()],
        "ended by": [run.finish_reason or "n/a" for run in runs.values()],
        "rounds (target passes)": [str(len(run.rounds)) for run in runs.values()],
        "tokens per round": [number(run.tokens_per_round, ".2f") for run in runs.values()],
        "accepted/drafted": [fraction(run.accepted, run.drafted) for run in runs.values()],
        "accepted/tested": [tested(run) for run in runs.values()],
        "prefill seconds": [number(run.prefill_seconds, ".3f") for run in runs.values()],
    }
    if len(runs) == 2:
        rows["speed-up"] = ["", number(speedup(*runs.values()), ".2f")]
    lines = [f"{label:24}" + "".join(f"{cell:>18}" for cell in cells)  # 60 columns
             for label, cells in ({"": list(runs)} | rows).items()]
    return "\n".join(line.rstrip() for line in lines)


def tested(run: Generation) -> str:
    """Return the share of the tested tokens that was accepted, which under the block rule is none.

    There the drafted tokens are judged together.
    """
    return "n/a" if run.accepted_per_tested is None else fraction(run.accepted, run.tested)


def speedup(baseline: Generation, speculative: Generation) -> float | None:
    """Return the pace of the second over that of the first; None where either made no token."""
    return ratio(speculative.tokens_per_second or 0, baseline.tokens_per_second or 0)


def fraction(part: int, whole: int) -> str:
    """Return both counts and their ratio."""
    return f"{part}/{whole} = {part / whole:.2f}" if whole else "n/a"


def as_json(text: str, run: Generation) -> dict:
    """Return one run as it stands in the output of --json."""
    return {"text": text, "tokens": run.tokens, "finish_reason": run.finish_reason,
            "stats": run.stats()}


def traffic_of(traffic: dict[str, int], rounds: int) -> dict:
    """Return how often processes spoke to each other in a run, in all, per pass and per round.

    The prefill is a pass, too.
    """
    return {**traffic,
            "per_pass": {name: ratio(n, traffic["passes"]) for name, n in traffic.items()},
            "per_round": {name: ratio(n, rounds) for name, n in traffic.items()}}


def traffic_line(title: str, traffic: dict) -> str:
    """Return the same in a line."""
    each = traffic["per_round"]
    if each["sums"] is None:
        return f"{title}: no round, no sum over the processes"
    return (f"{title}, per round: {each['sums']:.1f} sums over the processes, "
            f"{each['sum_bytes'] / 1000:.1f} kB of each; {each['announcements']:.1f} "
            f"announcements, {each['announced_bytes'] / 1000:.1f} kB")


def reason(baseline: Generation, speculative: Generation, advice: str) -> str:
    """Explain the speed-up in one sentence: passes, and what a round cost and gave.

    advice: what to try if speculation lost.
    """
    if not baseline.new_tokens or not speculative.new_tokens:
        return "No token was decoded, so there is nothing to compare."
    if not speculative.drafted:
        return "Nothing was drafted, so every round was a plain step: there was nothing to gain."
    n, rounds = speculative.new_tokens, len(speculative.rounds)
    step = baseline.decode_seconds / len(baseline.rounds)
    cost, gave = speculative.decode_seconds / rounds / step, n / rounds
    sentence = (f"{rounds} pass{'es' * (rounds > 1)} of the target instead of {n}; a round cost "
                f"{cost:.2f} plain steps and gave {gave:.2f} tokens, ")
    if cost < 0.95:  # but every round has a step in it
        return sentence + ("so the two were not timed alike: the machine was busy, or one text "
                           "is much longer; run it again.")
    return sentence + f"so {outcome(gave / cost, advice)}"


def outcome(factor: float, advice: str) -> str:
    """Say what a speed-up of this factor is, and after a loss what to try."""
    if factor > 1.05:
        return f"it was {factor:.2f} times as fast."
    if factor >= 0.95:
        return "it was about as fast as the plain loop."
    return f"it lost. If nothing else was running, {advice}."


def advise(options: argparse.Namespace) -> str:
    """Say what may gain where the run of these options lost."""
    if options.draft == LOOKUP:
        return "try a draft model: copying gains only where a text repeats itself"
    tune = f"python -m decoding.benchmark --tune --temperatures {options.temperature:g}"
    if options.target != DEFAULT_TARGET:
        tune += f" --target {options.target} --draft {options.draft}"
    if options.tree is not None:
        return f"leave out --tree, or try {tune} to find the best gamma here"
    less = "--gamma 2, or " if options.gamma != "auto" and options.gamma > 2 else ""
    return f"try {less}{tune} to find the best gamma here"


def lossless(shared_noise: bool) -> str:
    """Say in one sentence what may be expected of two sampled runs."""
    if shared_noise:
        return "Lossless means here: the same distribution, and with shared noise the same text."
    return ("Lossless means here: the same distribution, not the same text, "
            "since the two loops use random numbers differently.")
