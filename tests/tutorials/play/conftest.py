"""Opens tutorials/play.html in a real browser.

Needs the Python package playwright and a Chromium, Debian's for one.
"""
import pytest

from tests.tutorials.play.browser import BROWSER
from tutorials.play.__main__ import PAGE


@pytest.fixture(scope="session")
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
