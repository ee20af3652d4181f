"""The first panel of the page: a die, by right and wrong rules."""
import random
import re

import pytest
import torch

from decoding.acceptance import accept_sampled
from decoding.proof import mistakes
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from tests.tutorials.play.browser import needs_a_browser, state

pytestmark = pytest.mark.slow

# name in the page's address: rule, dice drafted in a round
RULES = {
    "right": (accept_sampled, 1),
    "redraw": (mistakes.redraw_from_p, 1),
    "softmax": (mistakes.softmax_residual, 1),
    "greedy": (accept_sampled, 1),
    "one-u": (mistakes.one_uniform_for_all, 2),
    "leq": (mistakes.less_or_equal, 1),
}


def outcome(name, p, q):
    """{(face, whether it was drafted and kept): probability}, by the project's own rules."""
    rule, dice = RULES[name]
    p, q = torch.tensor([p, q], dtype=torch.float64)
    drawn = torch.nn.functional.one_hot(q.argmax(), len(q)).double() if name == "greedy" else q

    def program(generator):
        tokens = []
        while len(tokens) < dice:
            k = dice - len(tokens)
            drafted = torch.cat([draw(drawn[None], generator) for _ in range(k)])
            verdict = rule(drafted, q.expand(k, -1), p.expand(k + 1, -1), generator)
            n = int(verdict.n)
            tokens += [*drafted[:n].tolist(), int(verdict.token)]
        return tokens[dice - 1], n == k
    return distribution_of(program)


def random_dice(name, seed):
    """A pair of dice of three or more faces, some of which may never come up."""
    numbers = random.Random(f"{name} {seed}")
    faces = 3 if name == "one-u" else numbers.randint(3, 8)
    rows = [[numbers.choice([0, 1, 1, 1]) * numbers.random() for _ in range(faces)]
            for _ in "pq"]
    for row in rows:
        row[numbers.randrange(faces)] += 0.1
    return [[value / sum(row) for value in row] for row in rows]


@needs_a_browser
@pytest.mark.parametrize("name", RULES)
def test_the_exact_distribution_is_that_of_the_proof(visit, name):
    pairs = [random_dice(name, seed) for seed in range(100)]
    found = visit().evaluate("([name, pairs]) => pairs.map(([p, q]) => play.outcome(name, p, q))",
                             [name, pairs])
    for (p, q), result in zip(pairs, found):
        wanted = outcome(name, p, q)
        for face in range(len(p)):
            for part, kept in (("kept", True), ("third", False)):
                assert abs(result[part][face] - wanted.get((face, kept), 0)) < 1e-9
            possible = {face for face, _ in wanted}
            assert result["possible"][face] == (face in possible)


@needs_a_browser
def test_every_rule_of_the_page_is_compared(visit):
    assert set(visit().evaluate("Object.keys(play.RULES)")) == set(RULES)


def bar(page, name, face):
    return page.get_by_role("slider", name=f"{name} of face {face}")


@needs_a_browser
def test_a_bar_is_dragged(visit):
    page = visit()
    box = bar(page, "p", "A").bounding_box()
    middle, top = box["x"] + box["width"] / 2, box["y"] + box["height"] / 6

    def tip():
        part = bar(page, "p", "A").locator(".value").bounding_box()
        return part["y"] + part["height"]

    page.mouse.move(middle, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(middle, top, steps=3)
    assert bar(page, "p", "A").get_attribute("aria-valuenow") == "0.5"  # 5/6 of an axis up to 0.6
    assert "p=0.5,0.25," in state(page)
    assert tip() == pytest.approx(top, abs=4)
    page.mouse.move(middle, top - box["height"] / 2)  # beyond the axis, which then goes up to 1
    assert bar(page, "p", "A").get_attribute("aria-valuenow") == "0.8"
    before = tip()
    assert before == pytest.approx(box["y"] + box["height"] / 5, abs=4)
    page.mouse.up()
    assert tip() == before
    assert page.locator("#die-verdict").inner_text().startswith("✓")


@needs_a_browser
def test_a_bar_obeys_the_keys(visit):
    page = visit()
    bar(page, "q", "B").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("PageDown")
    assert bar(page, "q", "B").get_attribute("aria-valuenow") == "0.41"


@needs_a_browser
def test_redrawing_from_p_is_explained_with_its_numbers(visit):
    page = visit("#rule=redraw")
    assert "0.120" in page.locator("#die-verdict").inner_text()
    why = page.locator("#die-why").inner_text()
    assert "kept with 0.30" in why and "0.30 · 0.30 = 0.09" in why
    assert "max(0, p − q)".replace(" ", "\N{NO-BREAK SPACE}") in why


@needs_a_browser
@pytest.mark.parametrize("name", RULES)
def test_the_code_of_a_rule_is_not_cut_off(visit, name):
    page = visit(f"#rule={name}&rolls=10000")
    page.get_by_text("its code").click()
    assert page.evaluate("""() => {
        const code = document.getElementById("die-code");
        const page = document.documentElement;
        return code.scrollWidth <= code.clientWidth && page.scrollHeight <= innerHeight;
    }""")


@needs_a_browser
def test_arrows_choose_the_rule_and_the_address_says_which(visit):
    page = visit()
    page.keyboard.press("ArrowRight")
    assert state(page) == "#rule=redraw"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert state(page) == "#rule=leq"


@needs_a_browser
def test_one_roll_shows_draft_test_and_third_die(visit):
    """All steps at once by the space key; the face that came out is the one that is counted."""
    page = visit("#p=1,0,0&q=0,1,0")
    for _ in range(6):
        page.keyboard.press(" ")
        if page.locator("#die-count").inner_text().startswith("rolled"):
            break
    lines = page.locator("#die-roll li").all_inner_texts()
    assert "drafted B" in lines[0] and "rejected" in lines[1] and "third die: A" in lines[2]
    assert page.locator("#die-count").inner_text() == "rolled: A 1, B 0, C 0"


@needs_a_browser
@pytest.mark.parametrize("name", RULES)
def test_ten_thousand_rolls_agree_with_the_exact_distribution(visit, name):
    page = visit(f"#rule={name}")
    page.get_by_role("button", name="roll 10,000").click()
    words = page.locator("#die-count").inner_text()
    assert float(re.search(r"([\d.]+) from what", words)[1]) < 0.02
    assert "rolls=10000" in state(page)
    again = visit(state(page))  # an address shows the same rolls
    assert again.locator("#die-count").inner_text() == words


@needs_a_browser
@pytest.mark.parametrize("address", [
    "#rule=none&p=1,2,x&q=&rolls=-5", "#p=0,0,0", "#p=1&q=1", "#faces=99&panel=nowhere",
    "#panel=toString", "#rule=toString", "#toString=1",
    "#rolls=NaN&seed=&p=9,9,9,9,9,9,9,9,9,9,9,9&q=1,1,1,1,1,1,1,1,1,1,1,1",
])
def test_a_bad_address_is_made_good(visit, address):
    assert visit(address).locator("#die-verdict").inner_text().startswith("✓")


@needs_a_browser
def test_less_or_equal_is_not_called_right_where_p_forbids_a_face(visit):
    verdict = visit("#rule=leq&p=0,0.5,0.5&q=0.2,0.4,0.4").locator("#die-verdict").inner_text()
    assert "p forbids A, yet it can come out" in verdict


@needs_a_browser
@pytest.mark.parametrize("address, words", [
    ("#rule=redraw&p=0.5,0.5,0&q=0.25,0.25,0.5", "by luck"),
    ("#rule=redraw&p=0.5,0.5,0&q=0.5,0.5,0", "Nothing is rejected"),
    ("#rule=one-u&p=0.5,0.5,0&q=0.25,0.25,0.5", "but not with this p and q"),
    ("#rule=greedy&p=0.4,0.3,0.3&q=1,0,0", "q is sure of A"),
    ("#rule=greedy&p=0,0.5,0.5&q=0.4,0.3,0.3", "by luck"),
])
def test_a_wrong_rule_that_is_right_here_is_not_said_to_err(visit, address, words):
    page = visit(address)
    assert page.locator("#die-verdict").inner_text().startswith("✓")
    assert words in page.locator("#die-why").inner_text()


@needs_a_browser
@pytest.mark.parametrize("name, words", [
    ("right", ["are_below(u, ratios(", "function ratios"]),
    ("redraw", ["draw(p[n]", "function leading"]),
    ("softmax", ["softmax(", "function softmax"]), ("one-u", ["uniform(1, generator)"]),
    ("greedy", ["// drafted: draw(greedy(q)", "function residual", "function greedy"]),
    ("leq", ["is_at_most(u[i], ratio)"])])
def test_the_code_shows_the_mistake_and_what_is_called(visit, name, words):
    page = visit(f"#rule={name}")
    page.get_by_text("its code").click()
    code = page.locator("#die-code")
    assert all(word in code.inner_text() for word in words)
    assert code.evaluate("(code) => code.scrollWidth <= code.clientWidth")


@needs_a_browser
def test_every_rule_takes_an_empty_draft(visit):
    found = visit().evaluate("""() => Object.values(play.RULES).map(({ rule }) =>
        rule([], [], [[0, 1, 0]], new play.TorchGenerator(0)))""")
    assert all((verdict["n"], verdict["token"]) == (0, 1) for verdict in found)
    assert len(found) == len(RULES)


@needs_a_browser
def test_a_roll_ends_where_the_address_has_other_dice(visit):
    page = visit("#p=0,0,0,0,0,0,0,1&q=0,0,0,0,0,0,0,1")
    page.keyboard.press(" ")
    page.evaluate("location.hash = '#p=1,1,1,1&q=1,1,1,1'")
    page.wait_for_timeout(1500)  # the next step would have come
    assert page.locator("#die-roll li").count() == 0
    assert "rolls" not in state(page)


@needs_a_browser
def test_clear_rolls_other_numbers_and_touches_no_other_panel(visit):
    page = visit("#rolls=10000")
    counts = "play.panels.die.counted.counts"
    before = page.evaluate(counts)
    page.get_by_role("button", name="clear").click()
    page.get_by_role("button", name="roll 10,000").click()
    assert page.evaluate(counts) != before
    page.keyboard.press("5")
    assert "--seed 1 " in page.locator("#pair-command").text_content()
    assert "&seed" not in state(page) and "#seed" not in state(page)


@needs_a_browser
def test_more_than_a_million_rolls_are_not_offered(visit):
    page = visit("#rolls=995000")
    button = page.get_by_role("button", name="roll 10,000")
    button.click()
    assert page.locator("#die-count").inner_text().count("1,000,000") == 1
    assert button.is_disabled() and page.get_by_role("button", name="roll one").is_disabled()
    page.get_by_role("button", name="clear").click()
    assert button.is_enabled()


@needs_a_browser
def test_the_right_rule_is_explained_by_a_face_of_each_kind(visit):
    why = visit().locator("#die-why").inner_text()
    assert "drafted with 0.50 and kept with p/q = 0.60, together p(B) = 0.30" in why
    assert "both sum to one, so in total as much is missing as is rejected: 0.30" in why
    assert "A gets 0.20 + 0.20 = p(A)" in why


@needs_a_browser
def test_a_face_that_lacks_a_little_can_get_too_much(visit):
    why = visit("#rule=redraw").locator("#die-why").inner_text()
    assert "B, kept with 0.30, has all of p(B) already" in why
    why = visit("#rule=redraw&p=0,0.9,0.1&q=0.91,0,0.09").locator("#die-why").inner_text()
    assert "C, kept with 0.09, lacks only 0.01" in why
    why = visit("#rule=redraw&p=0.01,0.9,0.09&q=0.02,0.87,0.11").locator("#die-why").inner_text()
    assert "B lacks 0.030 and gets only 0.027" in why


@needs_a_browser
def test_the_error_is_the_half_of_a_sum(visit):
    page = visit("#rule=greedy")
    assert "error is 0.300" in page.locator("#die-verdict").inner_text()
    assert "(0.13 + 0.30 + 0.07 + 0.10) / 2" in page.locator("#die-count").inner_text()
    assert "A is never drafted" in page.locator("#die-why").inner_text()
    assert "right rule keeps" in visit().locator("#die-count").inner_text()
