"""What the notebooks share: tokens in colour, and the checks that grade the exercises."""
import html
from collections.abc import Callable, Iterable

import torch
from IPython.display import HTML

from decoding import Round

STYLES = {  # readable in black and white: the fates differ in line, not in colour alone
    "accepted": "background:#d5efd5;border-bottom:2px solid #2a7a2a",
    "correction": "background:#f9dcc4;border-bottom:2px dashed #b4510c;font-weight:bold",
    "bonus": "background:#d6e4f7;border-bottom:3px double #1f5fb0",
}


def colored(rounds: Iterable[Round], tokenizer, prompt: str = "") -> HTML:
    """The text of a run, each token marked by its origin: accepted draft, correction, or bonus."""
    spans = [f"<span style='color:#777'>{escape(prompt)}</span>"]
    for round in rounds:
        for i, token in enumerate(round.emitted):
            text = tokenizer.decode_single_token_bytes(token).decode("utf-8", errors="replace")
            spans.append(mark(text, "accepted" if i < round.accepted else round.kind))
    legend = " ".join(mark(f" {origin} ", origin) for origin in STYLES)
    return HTML(f"<p style='line-height:1.9'>{''.join(spans)}</p><p><small>{legend}</small></p>")


def mark(text: str, origin: str) -> str:
    return f"<span style='color:#111;{STYLES[origin]}'>{escape(text)}</span>"


def escape(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def check(mine: Callable, truth: Callable, cases: Iterable[tuple], close: float = 1e-6) -> str:
    """Grade `mine` against `truth` on every case, a tuple of arguments: "exact", "close" or "wrong", printed and returned.

    close: the largest difference that rounding may make. The first wrong case is shown, and what was expected.
    """
    worst = 0.0
    for case in cases:
        expected = truth(*case)
        try:
            got = mine(*case)
            worst = max(worst, difference(got, expected))
        except Exception as error:  # noqa: BLE001 - a learner's function may raise anything
            return verdict("wrong", f"{call(mine, case)}\n  {type(error).__name__}: {error}\n  expected {describe(expected)}")
        if not worst <= close:
            return verdict("wrong", f"{call(mine, case)}\n  gives    {describe(got)}\n  expected {describe(expected)}")
    return verdict("exact") if worst == 0 else verdict("close", f"largest difference {worst:.1g}")


def difference(got, expected) -> float:
    """The largest difference between two answers; inf where they cannot be compared. Raises TypeError for a wrong shape."""
    if isinstance(expected, (str, bool, type(None))) or isinstance(expected, (list, tuple)) and not numbers(expected):
        return 0.0 if got == expected else float("inf")
    if got is None:
        raise TypeError("the function returned nothing; did you forget `return`?")
    got, expected = torch.as_tensor(got, dtype=torch.float64), torch.as_tensor(expected, dtype=torch.float64)
    if got.shape != expected.shape:
        raise TypeError(f"the answer has the shape {tuple(got.shape)}, not {tuple(expected.shape)}")
    return torch.nan_to_num((got - expected).abs(), nan=float("inf")).max().item() if got.numel() else 0.0


def numbers(values: list | tuple) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def call(function: Callable, case: tuple) -> str:
    return f"{function.__name__}({', '.join(describe(argument) for argument in case)})"


def describe(value) -> str:
    """A value in one line: short tensors whole, longer ones by shape."""
    if isinstance(value, torch.Tensor):
        text = str([round(x, 4) for x in value.flatten().tolist()]) if value.dim() == 1 and value.numel() <= 8 else "..."
        return f"tensor {tuple(value.shape)} {text}"
    return repr(value)


def verdict(grade: str, detail: str = "") -> str:
    print(f"{grade}: {detail}" if detail else grade)
    return grade
