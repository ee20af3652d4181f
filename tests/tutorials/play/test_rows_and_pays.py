"""The last two panels of the page: real rows, and when it pays."""
import random
import re

import pytest
import torch

from decoding.sampling import Sampling, to_probs
from decoding.theory import expected_speedup
from tests.tutorials.play.browser import needs_a_browser
from tutorials.play.__main__ import PAGE
from tutorials.play.store import KEPT, STORY
from weights import load_model, load_tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logits():
    """What both models say along the story: (T, n_vocab) each."""
    ids = torch.tensor([load_tokenizer("tales-large").encode(STORY)])
    with torch.no_grad():
        return [load_model(name).forward(ids)[0] for name in ("tales-large", "tales-small")]


@needs_a_browser
@pytest.mark.parametrize("temperature, top_k, top_p", [
    (1, None, None), (0.2, None, None), (2, None, None), (0.8, 50, None), (1.5, 200, None),
    (1, None, 0.9), (0.7, 20, 0.5)])
def test_the_stored_rows_give_what_the_models_give(visit, logits, temperature, top_k, top_p):
    page = visit(f"#panel=rows&T={temperature}&topk={top_k or 0}&topp={top_p or 1}")
    found = page.evaluate("play.panels.rows.overlaps")
    p, q = (to_probs(rows, Sampling(temperature, top_k, top_p)) for rows in logits)
    uncut = torch.tensor(page.evaluate("play.panels.rows.uncut"))
    if top_p is not None:  # the page says where a nucleus is larger than what is stored
        larger = torch.maximum((p > 0).sum(-1), (q > 0).sum(-1)) > KEPT
        assert torch.equal(uncut, larger) and uncut.sum() < 20
    wanted = torch.minimum(p, q).sum(-1)
    assert torch.allclose(torch.tensor(found)[~uncut], wanted.float()[~uncut], atol=1e-4)
    page.keyboard.press("ArrowRight")
    rows = page.evaluate("play.panels.rows.row(4)")
    for name, row in (("p", p[4]), ("q", q[4])):
        shown = torch.tensor(rows[name], dtype=row.dtype)
        assert torch.allclose(shown, row[rows["ids"]], atol=1e-5)
    assert f"= {found[4]:.2f}" in page.locator("#rows-about").inner_text()


@needs_a_browser
def test_a_token_of_the_story_can_be_chosen(visit):
    page = visit("#panel=rows")
    page.get_by_role("button", name=" forest").first.click()
    assert "forest”: Σ" in page.locator("#rows-about").inner_text()
    assert page.locator("#rows-bars .pair").count() == 12


@needs_a_browser
def test_the_formulas_are_those_of_the_theory(visit):
    numbers = random.Random(0)
    cases = [[numbers.random(), numbers.randrange(1, 13), numbers.random(), 1 + numbers.random()]
             for _ in range(100)]
    page = visit("#panel=pays")
    found = page.evaluate("cases => cases.map((case_) => play.expected_speedup(...case_))", cases)
    for case, speedup in zip(cases, found):
        assert abs(speedup - expected_speedup(*case)) < 1e-12
    even = page.evaluate("cases => cases.map(([_, ...rest]) => play.break_even(...rest) ?? null)",
                         cases)
    assert None in even
    for (_, *rest), alpha in zip(cases, even):
        if alpha is None:
            assert expected_speedup(1, *rest) < 1
        else:
            assert abs(expected_speedup(alpha, *rest) - 1) < 1e-9


@needs_a_browser
def test_the_best_gamma_is_named(visit):
    page = visit("#panel=pays&alpha=0.8&c=0.1&v=1.2&gamma=2")
    best = max(range(1, 13), key=lambda gamma: expected_speedup(0.8, gamma, 0.1, 1.2))
    speedup = expected_speedup(0.8, best, 0.1, 1.2)
    assert f"best γ is {best}: {speedup:.2f} times" in page.locator("#pays-best").inner_text()
    assert visit("#panel=pays&alpha=0.1&c=0.9").get_by_text("No γ pays").is_visible()
    assert visit("#panel=pays&c=0&v=1").get_by_text("from α = 0.00 on").is_visible()


@needs_a_browser
def test_the_presets_are_what_was_measured(visit):
    """Their dots are numbers of the benchmark's tables, which stand in its README."""
    readme = (PAGE.parents[1] / "decoding" / "bench" / "README.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| ([01]) \| ([123468]) \| ([\d.]+) \|.*\| 12 \|$", readme, re.MULTILINE)
    measured = [float(speedup) for _, _, speedup in tables]
    page = visit("#panel=pays")
    for i in range(4):
        page.keyboard.press(" ")
        labels = [bar.get_attribute("aria-label")
                  for bar in page.locator("#pays-chart .bar").all()]
        dots = [float(label.split("measured ")[1]) for label in labels if "measured" in label]
        machine, temperature = divmod((i + 2) % 4, 2)
        start = 12 * machine + 6 * temperature
        assert dots == measured[start:start + 6]
