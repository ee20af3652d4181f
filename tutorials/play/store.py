"""`python -m tutorials.play.store`: make what the page shows of real models, a minute on two cores.

runs.json: a run recorded for each gamma, one by the block rule, and one of trees.
rows.json: what both models say at each position of a story. The logits of the tokens that one of
them ranks among its first KEPT, and for some temperatures what all other tokens come to.
Then join the page again.
"""
import base64
import json
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from decoding.generate import main
from decoding.sampling import Sampling, to_probs
from tutorials.play.__main__ import FOLDER
from weights import load_model, load_tokenizer

RUNS = [*(["--gamma", str(n)] for n in range(1, 9)), ["--gamma", "4", "--rule", "block"],
        ["--tree", "4x2"]]
PROMPT = "Once upon a time"
OPTIONS = ["--mode", "speculative", "--max-new-tokens", "40", "--temperature", "0.8",
           "--seed", "15", "--quiet"]

STORY = ("Once upon a time there was a poor woodcutter who lived with his wife and his two "
         "children at the edge of a great forest. One day, when there was nothing left to eat in "
         "the house, the boy said to his sister, \"Do not cry. I will go out into the forest, and "
         "ask the old woman for some bread.\" So he took his")
KEPT = 200
TEMPERATURES = [n / 10 for n in range(2, 21)]


def rows() -> dict:
    """Return the rows of both models, after each token of the story."""
    tokenizer = load_tokenizer("tales-large")
    ids = tokenizer.encode(STORY)
    with torch.no_grad():
        target, draft = (load_model(name).forward(torch.tensor([ids]))[0].double()
                         for name in ("tales-large", "tales-small"))  # (T, n_vocab)
    positions = [position(*both) for both in zip(target, draft)]
    words = {id for row in positions for id in row["ids"]}
    return {"story": [decoded(id, tokenizer) for id in ids], "temperatures": TEMPERATURES,
            "words": {id: decoded(id, tokenizer) for id in sorted(words)},
            "positions": positions}


def position(target: Tensor, draft: Tensor) -> dict:
    """Return what is kept of one position's logits. target, draft: (n_vocab,)

    rest: for each temperature how much mass the tokens that are not kept have, by target and by
    draft, and how much of it they agree on, the sum of min(p, q).
    """
    kept = torch.cat([target.topk(KEPT).indices, draft.topk(KEPT).indices]).unique()
    rest = []
    for temperature in TEMPERATURES:
        p, q = (to_probs(logits, Sampling(temperature)) for logits in (target, draft))
        rows = torch.stack([p, q, torch.minimum(p, q)])  # (3, n_vocab)
        rest.append(rounded(rows.index_fill(1, kept, 0).sum(1).tolist()))
    return {"ids": kept.tolist(), "target": packed(target[kept]), "draft": packed(draft[kept]),
            "rest": rest}


def packed(numbers: Tensor) -> str:
    """Return numbers as the page reads them: float32, little-endian, in base64."""
    return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode("ascii")


def decoded(id: int, tokenizer) -> str:
    return tokenizer.decode_single_token_bytes(id).decode("utf-8", "replace")


def runs() -> list[dict]:
    """Return the recorded runs: the same prompt, the same seed."""
    recordings = []
    with tempfile.TemporaryDirectory() as folder:
        for options in RUNS:
            file = Path(folder) / "run.json"
            code = main([PROMPT, *OPTIONS, *options, "--record", str(file)])
            assert code == 0
            recordings.append(rounded(json.loads(file.read_text(encoding="utf-8"))))
    return recordings


def rounded(value):
    """Return the same with six significant digits, which are all the page shows, and no clocks."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()
                if "seconds" not in name and name != "record"}
    return value


def save(name: str, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / name).write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    save("runs.json", runs())
    save("rows.json", rows())
