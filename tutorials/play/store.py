"""`python -m tutorials.play.store`: make what the page shows of real models, a minute on two cores.

runs.json: a run recorded for each gamma. Then join the page again.
"""
import json
import tempfile
from pathlib import Path

from decoding.generate import main
from tutorials.play.__main__ import FOLDER

GAMMAS = range(1, 9)
PROMPT = "Once upon a time"
OPTIONS = ["--mode", "speculative", "--max-new-tokens", "40", "--temperature", "0.8", "--seed", "15",
           "--quiet"]


def runs() -> list[dict]:
    """Return a recorded run for each gamma: the same prompt, the same seed."""
    recordings = []
    with tempfile.TemporaryDirectory() as folder:
        for gamma in GAMMAS:
            file = Path(folder) / "run.json"
            code = main([PROMPT, *OPTIONS, "--gamma", str(gamma), "--record", str(file)])
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
