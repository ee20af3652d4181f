"""The second panel of the page: a run, round by round."""
import base64
import json
import re

import pytest

from decoding.generate import main
from decoding.recording import read_recording
from tests.tutorials.play.browser import needs_a_browser, state
from tutorials.play.__main__ import PAGE

pytestmark = pytest.mark.slow


WAYS = {"token": ["--gamma", "3"], "block": ["--gamma", "5", "--rule", "block"],
        "comb": ["--tree", "3x2"], "tree": ["--tree", "2,2,1"]}


@pytest.fixture(scope="module")
def recordings(pair, tmp_path_factory):
    """Files that the program has written, and what is in each."""
    def record(way):
        file = tmp_path_factory.mktemp(way) / "run.json"
        options = [*WAYS[way], "--temperature", "1", "--seed", "3", "--max-new-tokens", "20"]
        assert main([*map(str, pair), "--mode", "speculative", *options, "--quiet",
                     "--record", str(file)]) == 0
        return file, json.loads(file.read_text(encoding="utf-8"))
    return {way: record(way) for way in WAYS}


@pytest.fixture
def recording(recordings):
    return recordings["token"]


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
    marks = [token["verdict"] for token in round["drafted"]]
    marks += [round["kind"]] if round["extra"] else []
    assert len(cards) == len(marks)
    for card, mark in zip(cards, marks):
        assert mark in card
    assert page.locator("#rounds-cards s").count() == marks.count("rejected")
    for token, card, mark in zip(round["drafted"], cards, marks):
        names = [] if round["parents"] and mark != "not tested" else ["q", "p"]
        for name in names + ["P", "h"] * round["block"]:
            equals = " = " if name in "Ph" else " "
            digits = ".2f" if name in "Ph" or token[name] >= 0.0995 else ".2g"
            assert f"{name}{equals}{token[name]:{digits}}" in card or token[name] < 0.00995
        has_u = mark != "not tested" if round["parents"] else token["u"] is not None
        assert bool(re.search(r"\bu (= )?\d", card)) == has_u
        if round["block"]:
            sign = "<" if token["u"] < token["h"] else "≥"
            assert f"{token['u']:.2f} {sign} h" in card or token["u"] < 0.00995
    assert page.locator("#rounds-said").inner_text().startswith(
        f"{marks.count('accepted')} of {len(round['drafted'])} stay" if round["drafted"]
        else "Nothing is drafted")


def check_answer(page, round):
    """Before the verdict: q and p, of a chain also the uniforms; what follows from them is open."""
    cards = page.locator("#rounds-cards .card").all_inner_texts()
    for token, card in zip(round["drafted"], cards, strict=True):
        assert re.search(r"\bq \d", card) and re.search(r"\bp \d", card)
        has_u = round["parents"] is None and token["u"] is not None
        assert bool(re.search(r"\bu = \d", card)) == has_u
        assert not re.search("accepted|rejected|tested|choice|<|≥", card)
    assert page.locator("#rounds-cards .tests, #rounds-cards s").count() == 0


def check_tree(page, round):
    """Each candidate below its parent, siblings side by side, none upon another; lines say so."""
    boxes = [node.bounding_box() for node in page.locator(".tree .node").all()]
    corners = [(box["x"], box["y"]) for box in boxes]
    parents, path = [*round["parents"]], []
    for i, token in enumerate(round["drafted"]):
        path += [i] if token["verdict"] == "accepted" else []
    assert [parents[i] for i in path] == [-1, *path][:len(path)]
    if round["extra"]:
        parents.append([-1, *path][-1])
    assert len(boxes) == len(parents) and len(set(corners)) == len(corners)
    row = boxes[0]["height"] + 14
    for i, parent in enumerate(parents):
        below = corners[parent][1] + row if parent >= 0 else corners[0][1]
        assert corners[i][1] == pytest.approx(below, abs=0.6)
        siblings = [j for j in range(i) if parents[j] == parent]
        if siblings:
            assert corners[i][0] > max(corners[j][0] for j in siblings)
        elif parent >= 0 and i < len(round["drafted"]):
            assert corners[i][0] == pytest.approx(corners[parent][0], abs=0.6)
    elbows = [line.bounding_box() for line in page.locator(".branch.elbow").all()]
    ends = [(line["x"] + line["width"], line["y"] + line["height"]) for line in elbows]
    wanted = [(x + 26, y) for (x, y), parent in zip(corners, parents) if parent >= 0]
    assert len(ends) == len(wanted)
    for place in wanted:
        assert any(end == pytest.approx(place, abs=6) for end in ends)
    starts = [(line["x"], line["y"]) for line in page.locator(".branch.stem").element_handles()
              for line in [line.bounding_box()]]
    for parent in set(parents) - {-1}:
        foot = corners[parent][0] + 26, corners[parent][1] + boxes[0]["height"]
        assert sum(start == pytest.approx(foot, abs=6) for start in starts) == parents.count(parent)
    taken = [i for i in path if parents[i] >= 0]
    assert page.locator(".branch.elbow.accepted").count() == len(taken)


@needs_a_browser
@pytest.mark.parametrize("way", WAYS)
def test_a_dropped_recording_is_shown_to_its_end(visit, recordings, way):
    file, run = recordings[way]
    page = visit()
    drop(page, file.name, file.read_text(encoding="utf-8"))
    page.get_by_text(f"round 1 of {len(run['rounds'])}").wait_for()
    assert page.locator("#rounds .lead:visible").count() == 1
    for number, round in enumerate(run["rounds"], start=1):
        assert f"round={number}&" in state(page).replace("#", "&") + "&" or number == 1
        page.keyboard.press(" ")
        check_answer(page, round)
        page.keyboard.press("ArrowRight")  # draft, target, verdict
        check_round(page, run, number)
        if round["parents"]:
            check_tree(page, round)
        check_caches(page, round)
        page.keyboard.press(" ")
    words = [token["text"] for token in run["prompt"]]
    for round in run["rounds"]:
        words += [token["text"] for token in round["drafted"] if token["verdict"] == "accepted"]
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
    ('{"recording": 2, "rounds": [{}], "prompt": [], "gamma": 1, "settings": {}}',
     "run.json is no recording"),
    ('{"recording": 2, "rounds": []}', "run.json is no recording"),
    ('{"recording": 1, "rounds": []}', "recording of version 1, but this page reads version 2"),
    ('{"recording": 7, "rounds": []}', "recording of version 7, but this page reads version 2"),
])
def test_what_is_no_recording_is_said_in_one_sentence(visit, text, words):
    page = visit("#panel=rounds&gamma=2&round=3")
    drop(page, "run.json", text)
    page.locator("#rounds-about.error").wait_for()
    said = page.locator("#rounds-about").inner_text()
    assert words in said and said.count(". ") == 0
    assert page.locator("#rounds-number").inner_text().startswith("round 3 of")  # nothing is lost


SPOILT = {
    "parents": [[], [-1], "x", 3, [0] * 6, [-1, 0, 1, 2, 3, 4], [-1, 0, 1, -1, 0, 9]],
    "kind": ["none", "x", None], "extra": [None, 3, {}], "block": [None, True],
    "drafted": [None, [], [3]], "residual": [None, [{"id": 1, "text": "a"}]],
    "target_cache": [None, [1], [-1, 2]], "draft_cache": [3, [1, 2, 3]]}
OF_A_TOKEN = {"q": [None, -1, "1"], "p": [None, "x"], "u": ["x", -1], "text": [3],
              "verdict": [None, "bonus", "rejected", "not tested"]}


@needs_a_browser
def test_a_damaged_recording_is_refused_in_one_sentence(visit, recordings):
    """Of a comb: a wrong parent, a sibling that is lost, a path that is none, and the rest."""
    text = recordings["comb"][0].read_text(encoding="utf-8")
    page = visit("#panel=rounds&gamma=2&round=3")

    def spoil(number, change):
        run = json.loads(text)
        change(next(round for round in run["rounds"] if round["parents"] and all(
            token["verdict"] == "accepted" for token in round["drafted"][:2])))
        drop(page, f"run{number}.json", json.dumps(run))
        page.get_by_text(f"run{number}.json is no recording; ").wait_for()

    changes = [lambda round, pair=(field, value): round.update([pair])
               for field, values in SPOILT.items() for value in values]
    changes += [lambda round, pair=(field, value): round["drafted"][0].update([pair])
                for field, values in OF_A_TOKEN.items() for value in values]
    changes += [lambda round: round["parents"].pop(), lambda round: round["drafted"].pop()]
    for number, change in enumerate(changes):
        spoil(number, change)
    assert page.locator("#rounds-number").inner_text().startswith("round 3 of")


ODD = [None, True, -1, 0, 1, 2.0, 2.5, 1025, 10**400, "", "x", "accepted", "rejected",
       "not tested", "bonus", [], [0, 0], [3], {}, {"x": 1}]


def spoilt(value):
    """The same with one thing in it that is another, or that is missing, wherever that may be."""
    yield from ODD
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1:]] for other in spoilt(item))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (value | {key: other} for other in spoilt(item))
            yield {name: value[name] for name in value if name != key}


def of_odd_bytes(text):
    mark = b"\xef\xbb\xbf"
    yield from [mark + text, mark * 2 + text, text + b"\0", text + b" \n", b"",
                text.replace(b'"text": "', b'"text": "\xff', 1), text.decode().encode("utf-16"),
                text.replace(b'"text": "', b'"text": "\\ud800', 1), b"[" * 10**5]
    for number in (b"8.0", b"8e0", b"80e-1", b"1e999", b"NaN", b"-Infinity", b"08", b"9" * 5000):
        yield text.replace(b'"gamma": ', b'"gamma": ' + number + b', "limit": ', 1)
        yield text.replace(b'"settings": {', b'"settings": {"x": ' + number + b", ", 1)


@needs_a_browser
@pytest.mark.parametrize("way", WAYS)
def test_the_page_and_the_library_read_the_same_files(visit, recordings, way, tmp_path):
    whole = recordings[way][1]
    by_kind = {round["kind"]: round | {"residual": round["residual"][:1]}
               for round in whole["rounds"]}
    run = whole | {"prompt": whole["prompt"][:1], "rounds": [*by_kind.values()],
                   "settings": {"temperature": 1}}
    files = [json.dumps(told).encode() for told in [run, *spoilt(run)]]
    files += of_odd_bytes(files[0])
    found = visit().evaluate("""(files) => files.map((file) => {
        try {
            const bytes = Uint8Array.from(atob(file), (byte) => byte.charCodeAt(0));
            play.readRecording("run.json", bytes);
            return "";
        } catch (error) {
            return error.message;
        }
    })""", [base64.b64encode(file).decode() for file in files])
    for contents, refusal in zip(files, found, strict=True):
        (tmp_path / "run.json").write_bytes(contents)
        try:
            read_recording(tmp_path / "run.json")
            wanted = ""
        except ValueError as error:
            wanted = " is no recording; " if " is no " in str(error) else "of version "
        assert wanted in refusal and bool(wanted) == bool(refusal), (contents, wanted, refusal)
    assert found[0] == "" and 20 < found.count("") < len(found) / 2


@needs_a_browser
def test_the_way_to_judge_is_chosen_and_stands_in_the_address(visit):
    page = visit("#panel=rounds&by=constructor")
    for way, words in (("block", "block rule, γ = 4"), ("tree", "tree 4x2"), ("token", "γ = 4")):
        page.locator("#rounds-by").select_option(way)
        assert words in page.locator("#rounds-about").inner_text()
        assert f"by={way}" in state(page) or way == "token"
        assert page.locator(f"#rounds-{way}").is_visible()
        again = visit(state(page))
        assert again.locator("#rounds-about").inner_text() == page.locator(
            "#rounds-about").inner_text()


@needs_a_browser
def test_the_class_predicts_the_path_of_a_tree(visit):
    """From none to as many tokens as there are positions; nothing gives the verdict away."""
    page = visit("#panel=rounds&by=tree&round=5&stage=1&predict=1")
    cards = page.locator("#rounds-cards .card").all_inner_texts()
    assert len(cards) == 8 and all("q " in card and "p " in card for card in cards)
    assert not any("u " in card or "accepted" in card for card in cards)
    assert page.locator(".branch.accepted").count() == 0
    buttons = page.locator("#rounds-said").get_by_role("button")
    assert buttons.all_inner_texts() == ["0", "1", "2", "3", "4"]
    buttons.nth(2).click()
    assert "2 of 8 stay" in page.locator("#rounds-said").inner_text()
    assert "You said 2: right. 1 of 1" in page.locator("#rounds-said").inner_text()


@needs_a_browser
def test_a_candidate_says_to_a_screen_reader_whose_child_it_is(visit):
    page = visit("#panel=rounds&by=tree&round=5&stage=2")
    nodes = page.get_by_role("list", name="the candidates").get_by_role("listitem")
    names = [node.get_attribute("aria-label").split(", ") for node in nodes.all()]
    assert [name[0] for name in names] == [f"candidate {name}" for name in (
        "1", "1.1", "1.1.1", "1.1.1.1", "2", "1.2", "1.1.2", "1.1.1.2")] + ["bonus"]
    assert [name[-1] for name in names[:6]] == ["accepted", "rejected", "not tested", "not tested",
                                                "not tested", "accepted"]


@needs_a_browser
def test_gamma_is_a_slider(visit):
    page = visit("#panel=rounds")
    page.locator("#rounds-gamma").focus()
    page.keyboard.press("ArrowRight")
    assert "gamma=5" in state(page)
    assert page.locator("#rounds-cards .card").count() == 5


@needs_a_browser
def test_the_class_predicts_before_the_verdict_is_shown(visit):
    """From p/q and u: as much as --step shows of the target's answer."""
    page = visit("#panel=rounds&stage=1&predict=1")
    cards = page.locator("#rounds-cards .card").all_inner_texts()
    assert all("p/q = " in card and "u = " in card for card in cards)
    assert "accepted" not in "".join(cards)
    page.locator("#rounds-said").get_by_role("button", name="0").click()
    stay = int(page.locator("#rounds-said").inner_text().split()[0])
    said = page.locator("#rounds-said").inner_text()
    assert ("You said 0: right. 1 of 1" if stay == 0 else "You said 0. 0 of 1") in said


def check_caches(page, round):
    """As many boxes are full, and dropped, as the recorded lengths say; the path is what is kept.

    The last token of a path is not in the cache if it ends the text.
    """
    tokens = round["drafted"]
    kept = [i for i, token in enumerate(tokens) if token["verdict"] == "accepted"]
    for row, cache in ((2, "target_cache"), (3, "draft_cache")):
        cells = page.locator(f"#rounds-caches tr:nth-child({row}) td")
        dropped = [i for i, name in enumerate(cells.evaluate_all(
            "cells => cells.map((cell) => cell.className)")) if name == "dropped"]
        before, after = round[cache]
        assert len(dropped) == before - after
        if cache == "target_cache" and round["extra"]:
            first = cells.count() - len(tokens)
            assert dropped == [first + i for i in range(len(tokens)) if i not in kept]


@needs_a_browser
def test_both_caches_follow_the_rewind(visit):
    runs = json.loads((PAGE.parent / "play" / "runs.json").read_text(encoding="utf-8"))
    for number, round in enumerate(runs[3]["rounds"][:4], start=1):
        check_caches(visit(f"#panel=rounds&round={number}&stage=2"), round)
    trees = runs[-1]["rounds"]
    by_sibling = [number for number, round in enumerate(trees, start=1) if round["kind"] == "bonus"
                  and [token["verdict"] for token in round["drafted"]][:2] == [
                      "accepted", "rejected"]]
    for number in by_sibling:
        check_caches(visit(f"#panel=rounds&by=tree&round={number}&stage=2"), trees[number - 1])
    assert by_sibling


@needs_a_browser
def test_nothing_of_a_stored_round_is_cut_off(visit):
    """Neither does a round have to be scrolled."""
    assert visit("#panel=rounds").evaluate("""() => {
        const parts = "#rounds .scroll, #rounds .card .token";
        const rounds = play.panels.rounds;
        const cut = [];
        for (const [by, runs] of rounds.recordings) {
            for (const [gamma, run] of runs) {
                for (const round of run.rounds.keys()) {
                    rounds.change({ by, gamma, round: round + 1, stage: 2 });
                    const { scrollHeight } = document.documentElement;
                    if (scrollHeight > innerHeight) cut.push(location.hash);
                    for (const { scrollWidth, clientWidth } of document.querySelectorAll(parts)) {
                        if (scrollWidth > clientWidth) cut.push(location.hash);
                    }
                }
            }
        }
        return cut;
    }""") == []


@needs_a_browser
def test_a_tree_that_is_drawn_twice_is_the_same(visit):
    page = visit("#panel=rounds&by=tree&round=5&stage=2")
    parents = "play.panels.rounds.run.rounds[4].parents"
    before, width = page.evaluate(parents), page.locator(".tree").bounding_box()["width"]
    for key in ("ArrowLeft", "ArrowRight", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(parents) == before
    assert page.locator(".tree").bounding_box()["width"] == width


@needs_a_browser
def test_p_and_q_have_as_many_digits_as_their_ratio_needs(visit):
    page = visit("#panel=rounds&stage=1")
    for _ in range(9):
        for card in page.locator("#rounds-cards .card").all_inner_texts():
            q, p, ratio = (float(re.search(rf"\b{name} (?:= )?([\d.e-]+)", card)[1])
                           for name in ("q", "p", "p/q"))
            assert p / q == pytest.approx(ratio, rel=0.12, abs=0.006), card
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")


@needs_a_browser
@pytest.mark.parametrize("by", ["token", "tree"])
def test_the_class_is_asked_before_the_verdict_is_shown(visit, by):
    page = visit(f"#panel=rounds&by={by}&predict=1")
    page.get_by_role("button", name="3 the verdict").click()
    page.keyboard.press(" ")
    page.keyboard.press("ArrowRight")
    said = page.locator("#rounds-said")
    assert "How many of them stay?" in said.inner_text() and "stage=1" in state(page)
    said.get_by_role("button", name="1").click()
    assert "You said 1" in said.inner_text() and "stage=2" in state(page)
    page.keyboard.press(" ")
    assert "round=2" in state(page)
    page.get_by_label("predict first").uncheck()
    page.get_by_role("button", name="3 the verdict").click()
    assert "stay" in said.inner_text() and "stage=2" in state(page)
