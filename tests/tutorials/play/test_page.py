"""tutorials/play.html as a file, and its panels."""
import re

import pytest

from tests.tutorials.play.browser import needs_a_browser, state
from tutorials.play.__main__ import PAGE, join

pytestmark = pytest.mark.slow


def test_the_page_is_what_its_source_gives():
    assert PAGE.read_text(encoding="utf-8") == join(), "run python -m tutorials.play"


def test_the_page_needs_no_network():
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)|https?://|\bimport\b[^\n]*from|@import",
                          PAGE.read_text(encoding="utf-8"))


@needs_a_browser
def test_a_panel_is_chosen_by_its_number(visit):
    page = visit()
    panels = ["die", "rounds", "rows", "pays", "pair"]
    for number, name in enumerate(panels, start=1):
        page.keyboard.press(str(number))
        visible = [panel for panel in panels if page.locator(f"#{panel}").is_visible()]
        assert visible == [name]
        assert page.locator("header").bounding_box()["height"] < 60  # one line


SHOWN = [
    "#rule=redraw&rolls=10000", "#p=1,1,1,1,1,1,1,1&q=2,1,1,1,1,1,1,1",
    "#panel=rounds&gamma=8&round=3&stage=2", "#panel=rounds&by=block&round=4&stage=2",
    "#panel=rounds&by=tree&round=9&stage=2", "#panel=rows&position=2&T=2", "#panel=pays",
    "#panel=pair"]


@needs_a_browser
@pytest.mark.parametrize("width, height", [(1280, 720), (390, 844)])
@pytest.mark.parametrize("address", SHOWN)
def test_a_panel_fits(visit, address, width, height):
    page = visit(address)
    page.set_viewport_size({"width": width, "height": height})
    wide, high = page.evaluate("[document.documentElement.scrollWidth, "
                               "document.documentElement.scrollHeight]")
    assert wide <= width
    assert high <= height or width == 390  # on a screen nothing is scrolled


@needs_a_browser
def test_a_text_can_be_read_from_the_last_row(visit):
    """No letters smaller than 16 pixels on a screen of 1280 by 720."""
    for address in SHOWN:
        small = visit(address).evaluate("""() => {
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            const small = [];
            while (texts.nextNode()) {
                const { parentElement: node, data } = texts.currentNode;
                const size = parseFloat(getComputedStyle(node).fontSize);
                if (data.trim() && node.checkVisibility() && size < 16) small.push([data, size]);
            }
            return small;
        }""")
        assert small == []


@needs_a_browser
@pytest.mark.parametrize("width, height", [(1280, 720), (390, 844)])
def test_a_swatch_stands_beside_its_words(visit, width, height):
    for address in ("", "#panel=rows", "#panel=pays"):
        page = visit(address)
        page.set_viewport_size({"width": width, "height": height})
        lines = page.locator(".swatch:visible").evaluate_all("""(all) => all.map((swatch) => {
            const words = document.createRange();
            words.selectNodeContents(swatch.nextSibling);
            return [...words.getClientRects()].map(({ top, bottom }) => {
                const box = swatch.getBoundingClientRect();
                return top < (box.top + box.bottom) / 2 && (box.top + box.bottom) / 2 < bottom;
            });
        })""")
        assert lines and all(lines) and all(all(line) for line in lines)


@needs_a_browser
def test_a_panel_changes_nothing_of_another(visit):
    """Each shows of the state what it can: gamma is at most 8 in one, 12 in another."""
    page = visit("#panel=pays&gamma=12")
    words = page.locator("#pays-round").inner_text()
    for key in "21354":
        page.keyboard.press(key)
    assert page.locator("#pays-round").inner_text() == words
    assert "γ = 12" in words and "gamma=12" in state(page)


@needs_a_browser
def test_after_a_click_the_keys_act(visit):
    page = visit()
    page.get_by_role("button", name="2 Round by round").click()
    page.keyboard.press(" ")
    assert "stage=1" in state(page)
    page.get_by_role("button", name="1 the draft proposes").click()
    page.keyboard.press(" ")
    assert "stage=1" in state(page)
    page.get_by_label("predict first").click()
    page.keyboard.press("ArrowLeft")
    assert "stage" not in state(page) and "predict=1" in state(page)
    page.locator("#rounds-gamma").focus()
    page.keyboard.press("ArrowLeft")
    assert "gamma=3" in state(page) and "stage" not in state(page)
    page.keyboard.press(" ")
    assert "gamma=3" in state(page) and "stage=1" in state(page)


@needs_a_browser
def test_what_the_keyboard_has_chosen_keeps_its_keys(visit):
    page = visit("#panel=rounds")
    for key, name in ((" ", "3 Real rows"), ("Enter", "2 Round by round")):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press(key)
        assert page.locator(":focus").inner_text() == name
    page.get_by_role("button", name="3 the verdict").focus()
    page.keyboard.press(" ")
    assert "stage=2" in state(page)
    page.get_by_label("predict first").focus()
    page.keyboard.press(" ")
    assert "predict=1" in state(page) and "stage=2" in state(page)
