"""The second panel of the page: a run, round by round."""
import json

import pytest

from decoding.generate import main
from tests.tutorials.play.browser import needs_a_browser, state
from tutorials.play.__main__ import PAGE

pytestmark = pytest.mark.slow


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
