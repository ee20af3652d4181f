"""What every test assumes: no network, no display, and one thread for small tensors."""
import os

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub and transformers are imported
os.environ["MPLBACKEND"] = "Agg"  # read when matplotlib is imported
torch.set_num_threads(1)  # many small operations on two contended threads are 50 times slower


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """The options that name a small pair of models."""
    from tests.commands import write_pair

    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def generate(pair, capsys):
    """The program with the small pair."""
    from tests.commands import ask

    return lambda *arguments: ask(capsys, *pair, *arguments)
