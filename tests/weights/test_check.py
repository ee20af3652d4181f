"""weights.check: what is compared, in which number format, and when that passes."""
import shutil

import pytest
import torch

from weights.check import PLAIN_CODE, check, check_continuation
from weights.continuations import CONTINUATIONS, Known
from weights.registry import BUNDLED, PUBLISHED

TALES = CONTINUATIONS["tales-small"].pairs[0]


class Fixed:
    """A model whose logits after n tokens are known beforehand."""

    def __init__(self, rows, dtype=torch.float32):
        self.rows = torch.tensor(rows, dtype=dtype)

    def new_cache(self, capacity):
        self.length = 0
        return self

    def __call__(self, tokens, cache):
        start = self.length
        self.length += tokens.shape[1]
        return self.rows[start:self.length][None]


ROWS = [[0, 0, 9], [0, 9, 8.9], [9, 0, 0], [0, 0, 9]]  # after 1, 2, 3 and 4 tokens


def test_every_continuation_must_be_right(monkeypatch):
    prompt, expected = TALES
    wrong = (prompt, [*expected[:-1], 0])
    for pairs, passes in [([TALES, TALES], True), ([TALES, wrong], False), ([wrong, TALES], False)]:
        monkeypatch.setitem(CONTINUATIONS, "tales-small", Known(pairs))
        assert check("tales-small")[0] == passes
    assert check_continuation(Fixed(ROWS), [0], [2, 1, 0, 2])[0]
    passed, report = check_continuation(Fixed(ROWS), [0], [2, 2, 0, 2])
    assert not passed and report.endswith("to give [2, 2, 0, 2] and gave [2, 1, 0, 2]")


def test_a_near_tie_may_go_the_other_way_and_is_named():
    near = [[0, 0, 9], [0, 9, 8.9375], [9, 0, 0], [0, 0, 9]]
    passed, report = check_continuation(Fixed(near, torch.bfloat16), [0], [2, 2, 0, 0])
    assert passed and report.endswith("and gave [2, 1], a near-tie in bfloat16")
    assert not check_continuation(Fixed(near), [0], [2, 2, 0, 0])[0]  # none in float32
    # after a mistake there are other texts, whose near-ties say nothing
    near[0] = [0, 9, 0]
    assert not check_continuation(Fixed(near, torch.bfloat16), [0], [2, 2, 0, 0])[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_model_runs_in_the_format_the_continuation_is_of(monkeypatch, dtype):
    found = []
    monkeypatch.setitem(CONTINUATIONS, "tales-small", Known([TALES], dtype))
    monkeypatch.setattr("weights.check.check_continuation",
                        lambda model, *pair: found.append(model.dtype) or (True, ""))
    check("tales-small")
    assert found == [getattr(torch, dtype)]


def test_a_revision_is_the_same_model_and_code_is_for_models_of_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("facebook/opt-125m@main", "my/coder"):
        shutil.copytree(BUNDLED["tales-small"], tmp_path / name)
    monkeypatch.setitem(CONTINUATIONS, "facebook/opt-125m", Known([TALES]))
    passed, report = check("facebook/opt-125m@main")
    assert passed and report.startswith("greedy decoding of")
    passed, report = check("my/coder")
    assert not passed  # fairy tales
    assert "nats per token on plain Python, expected below" in report
    compile(PLAIN_CODE, "code", "exec")


def test_what_is_known_is_of_known_names():
    assert set(CONTINUATIONS) <= {"gpt2", *BUNDLED, *PUBLISHED}
    for known in CONTINUATIONS.values():
        assert known.dtype in ("float32", "bfloat16") and all(map(all, known.pairs))
