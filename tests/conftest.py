"""What every test assumes: no network, no display, and one thread for small tensors."""
import atexit
import os
import shutil
import signal
from tempfile import mkdtemp

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub and transformers are imported
os.environ["XDG_CACHE_HOME"] = mkdtemp(prefix="tests-")  # layouts chosen here, and by programs
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
os.environ["MPLBACKEND"] = "Agg"  # read when matplotlib is imported
# Started in the background by a shell, pytest would ignore Ctrl-C, and so would what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # many small operations on two contended threads are 50 times slower

DURATION = ("all tests, with -n auto --dist worksteal: 13 to 21 minutes on two cores; "
            "python -m pytest -m quick: minutes")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs a program, a notebook or a large model")
    config.addinivalue_line("markers",
                            "quick: every test that is not slow; together some minutes")


def pytest_report_header(config):
    return DURATION


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker("quick")


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """The options that name a small pair of models."""
    from tests.commands import write_pair

    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def choose(monkeypatch):
    """Say which layers and which head are taken, which is else for preference and clock to say.

    choose(*favourites): the first of them that takes part, or else the last that takes part.
    Returns a list that grows: for each choice the candidates, the tokens, the dtype, the device.
    """
    from model.fast import layouts, preferences
    from weights.choices import FILE
    from weights.output import cache_folder

    def choose(*favourites):
        timed = []
        names = [getattr(favourite, "__name__", favourite) for favourite in favourites]

        def timed_choice(candidates, like, widths, tokens):
            timed.append((list(candidates), tokens, like.dtype, like.device.type))
            return next((name for name in names if name in candidates), list(candidates)[-1])

        forget()
        monkeypatch.setattr(layouts, "choose", timed_choice)
        monkeypatch.setattr(preferences, "on_intel", lambda: False)  # the same order everywhere
        return timed

    def forget():
        layouts.CHOICES.clear()
        (cache_folder() / FILE).unlink(missing_ok=True)

    yield choose
    forget()


@pytest.fixture
def generate(pair, capsys):
    """The program with the small pair."""
    from tests.commands import ask

    return lambda *arguments: ask(capsys, *pair, *arguments)
