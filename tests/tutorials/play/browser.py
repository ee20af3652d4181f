"""The browser that there is, and where a page says what it shows."""
import shutil

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)
needs_a_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium to show the page in")


def state(page):
    return page.evaluate("location.hash")
