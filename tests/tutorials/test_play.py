"""The page tutorials/play.html in a real browser: what it computes, what one can do on it.

Needs the Python package playwright and a Chromium, Debian's for one.
"""
import json
import random
import re
import shutil

import pytest
import torch

from decoding.acceptance import accept_sampled
from decoding.generate import main
from decoding.proof import mistakes
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from decoding.sampling import Sampling, to_probs
from decoding.theory import expected_speedup
from tutorials.play.__main__ import PAGE, join
from tutorials.play.store import KEPT, STORY
from weights import load_model, load_tokenizer

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)
pytestmark = pytest.mark.slow
needs_a_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to show the page in")

# name in the page's address: rule, dice drafted in a round
RULES = {
    "right": (accept_sampled, 1),
    "redraw": (mistakes.redraw_from_p, 1),
    "softmax": (mistakes.softmax_residual, 1),
    "greedy": (accept_sampled, 1),
    "one-u": (mistakes.one_uniform_for_all, 2),
    "leq": (mistakes.less_or_equal, 1),
}


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open the page at an address; at the end, nothing may have gone wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    errors = []

    def visit(address=""):
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: request.url.startswith(("file:", "data:"))
                or errors.append(request.url))
        page.goto(PAGE.as_uri() + address)
        return page

    yield visit
    context.close()
    assert errors == []


def test_the_page_is_what_its_source_gives():
    assert PAGE.read_text(encoding="utf-8") == join(), "run python -m tutorials.play"


def test_the_page_needs_no_network():
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)|https?://|\bimport\b[^\n]*from|@import",
                          PAGE.read_text(encoding="utf-8"))


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


def state(page):
    return page.evaluate("location.hash")


def bar(page, name, face):
    return page.get_by_role("slider", name=f"{name} of face {face}")


@needs_a_browser
def test_a_bar_is_dragged(visit):
    page = visit()
    box = bar(page, "p", "A").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 6, steps=3)
    page.mouse.up()
    assert bar(page, "p", "A").get_attribute("aria-valuenow") == "0.5"  # 5/6 of an axis up to 0.6
    assert "p=0.5,0.25,0.1667,0.0833" in state(page)
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
    "#rolls=NaN&seed=&p=9,9,9,9,9,9,9,9,9,9,9,9&q=1,1,1,1,1,1,1,1,1,1,1,1",
])
def test_a_bad_address_is_made_good(visit, address):
    assert visit(address).locator("#die-verdict").inner_text().startswith("✓")


@needs_a_browser
def test_less_or_equal_is_not_called_right_where_p_forbids_a_face(visit):
    verdict = visit("#rule=leq&p=0,0.5,0.5&q=0.2,0.4,0.4").locator("#die-verdict").inner_text()
    assert "error is 0, yet A can come out" in verdict


# Round by round


@pytest.fixture(scope="module")
def recording(pair, tmp_path_factory):
    """A file that the program has written, and what is in it."""
    file = tmp_path_factory.mktemp("recorded") / "run.json"
    assert main([*map(str, pair), "--mode", "speculative", "--temperature", "1", "--seed", "3",
                 "--gamma", "3", "--max-new-tokens", "20", "--quiet", "--record", str(file)]) == 0
    return file, json.loads(file.read_text(encoding="utf-8"))


def drop(page, name, text):
    """Drop a file on the page, as from a folder."""
    files = page.evaluate_handle("""([name, text]) => {
        const files = new DataTransfer();
        files.items.add(new File([text], name, { type: "application/json" }));
        return files;
    }""", [name, text])
    page.dispatch_event("body", "drop", {"dataTransfer": files})


def check_round(page, recording, number):
    """Compare the verdict of a round, as the page shows it, with the recorded one."""
    round = recording["rounds"][number - 1]
    cards = page.locator("#rounds-cards .card").all_inner_texts()
    marks = ["accepted" if i < round["accepted"]
             else "rejected" if (i, round["kind"]) == (round["accepted"], "correction")
             else "not tested" for i in range(len(round["drafted"]))]
    marks += [round["kind"]] if round["extra"] else []
    assert len(cards) == len(marks)
    for card, mark in zip(cards, marks):
        assert mark in card
    assert page.locator("#rounds-cards s").count() == marks.count("rejected")
    for token, card, mark in zip(round["drafted"], cards, marks):
        assert f"q {token['q']:.2f}" in card or token["q"] < 0.00995
        assert f"p {token['p']:.2f}" in card or token["p"] < 0.00995
        assert ("u = " in card) == (mark != "not tested")


@needs_a_browser
def test_a_dropped_recording_is_shown_to_its_end(visit, recording):
    file, run = recording
    page = visit()
    drop(page, file.name, file.read_text(encoding="utf-8"))
    page.get_by_text(f"round 1 of {len(run['rounds'])}").wait_for()
    for number in range(1, len(run["rounds"]) + 1):
        assert f"round={number}&" in state(page).replace("#", "&") + "&" or number == 1
        page.keyboard.press(" ")
        page.keyboard.press("ArrowRight")  # draft, target, verdict
        check_round(page, run, number)
        page.keyboard.press(" ")
    words = [token["text"] for token in run["prompt"]]
    for round in run["rounds"]:
        words += [token["text"] for token in round["drafted"][: round["accepted"]]]
        words += [round["extra"]["text"]] if round["extra"] else []
    assert page.locator("#rounds-text").text_content() == "".join(words)


@needs_a_browser
def test_a_recording_can_be_chosen_too(visit, recording):
    file, run = recording
    page = visit("#panel=rounds")
    page.set_input_files("#rounds-file", file)
    page.get_by_text(f"round 1 of {len(run['rounds'])}").wait_for()


@needs_a_browser
@pytest.mark.parametrize("text, words", [
    ("no JSON", "run.json is no recording"), ("null", "run.json is no recording"),
    ('{"recording": 1, "rounds": [{}], "prompt": [], "gamma": 1, "settings": {}}',
     "run.json is no recording"),
    ('{"recording": 1, "rounds": []}', "run.json is no recording"),
    ('{"recording": 7, "rounds": []}', "recording of version 7, but this page reads version 1"),
])
def test_what_is_no_recording_is_said_in_one_sentence(visit, text, words):
    page = visit("#panel=rounds&gamma=2&round=3")
    drop(page, "run.json", text)
    page.locator("#rounds-about.error").wait_for()
    said = page.locator("#rounds-about").inner_text()
    assert words in said and said.count(". ") == 0
    assert page.locator("#rounds-number").inner_text().startswith("round 3 of")  # nothing is lost


@needs_a_browser
def test_gamma_is_a_slider(visit):
    page = visit("#panel=rounds")
    page.locator("#rounds-gamma").focus()
    page.keyboard.press("ArrowRight")
    assert "gamma=5" in state(page)
    assert page.locator("#rounds-cards .card").count() == 5


@needs_a_browser
def test_the_class_predicts_before_u_and_the_verdict_are_shown(visit):
    page = visit("#panel=rounds&stage=1&predict=1")
    cards = "".join(page.locator("#rounds-cards .card").all_inner_texts())
    assert "p/q" in cards and "u =" not in cards and "accepted" not in cards
    page.locator("#rounds-said").get_by_role("button", name="0").click()
    stay = int(page.locator("#rounds-said").inner_text().split()[0])
    said = page.locator("#rounds-said").inner_text()
    assert ("You said 0: right. 1 of 1" if stay == 0 else "You said 0. 0 of 1") in said


@needs_a_browser
def test_both_caches_follow_the_rewind(visit):
    """As many boxes are full, and dropped, as the recorded lengths say."""
    run = json.loads((PAGE.parent / "play" / "runs.json").read_text(encoding="utf-8"))[3]
    for number, round in enumerate(run["rounds"][:4], start=1):
        page = visit(f"#panel=rounds&round={number}&stage=2")
        for row, cache in ((1, "target_cache"), (2, "draft_cache")):
            cells = page.locator(f"#rounds-caches tr:nth-child({row + 1})")
            before, after = round[cache]
            assert cells.locator(".dropped").count() == before - after


# Real rows


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


# When does it pay?


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


@needs_a_browser
def test_a_panel_is_chosen_by_its_number(visit):
    page = visit()
    for number, name in enumerate(["die", "rounds", "rows", "pays"], start=1):
        page.keyboard.press(str(number))
        visible = [panel for panel in ("die", "rounds", "rows", "pays")
                   if page.locator(f"#{panel}").is_visible()]
        assert visible == [name]


@needs_a_browser
@pytest.mark.parametrize("width, height", [(1280, 720), (390, 844)])
@pytest.mark.parametrize("address", [
    "#rule=redraw&rolls=10000", "#p=1,1,1,1,1,1,1,1&q=2,1,1,1,1,1,1,1",
    "#panel=rounds&gamma=8&round=3&stage=2", "#panel=rows&position=2&T=2", "#panel=pays"])
def test_a_panel_fits(visit, address, width, height):
    page = visit(address)
    page.set_viewport_size({"width": width, "height": height})
    wide, high = page.evaluate("[document.documentElement.scrollWidth, "
                               "document.documentElement.scrollHeight]")
    assert wide <= width
    assert high <= height or width == 390  # on a screen nothing is scrolled
