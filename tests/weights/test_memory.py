"""How much memory a process needs to load a large model: the model's own, and little more."""
import json
import sys

import pytest
import torch
from safetensors.torch import save_file

from model import GPT2, GPT2Config
from model.meta import without_memory
from tests.commands import environment, run_script
from weights.training.folder import to_json_config

LOAD = """
import json, re, sys, torch
from weights import load_fast, load_model
def peak():  # the most memory so far; ru_maxrss would start at what the parent process had
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
folder, layout = sys.argv[1:]
torch.set_num_threads(1)
import model.fast.onednn, weights.fill, weights.load
before = peak()
if layout == "as load_model has it":
    loaded = load_model(folder)
else:
    loaded = load_fast(folder, layout=layout)
size = sum(weight.nbytes for weight in loaded.parameters())
print(json.dumps([size, peak() - before]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of 1.1 GB in float32, stored in half precision."""
    folder = tmp_path_factory.mktemp("large")
    config = GPT2Config(n_layer=18, n_head=16, n_embd=1024)
    shapes = {name: weight.shape[::-1] if name.startswith("h.") else weight.shape
              for name, weight in without_memory(GPT2, config, torch.float32).named_parameters()}
    weights = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(to_json_config(config)))
    yield folder
    (folder / "model.safetensors").unlink()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("layout", ["as load_model has it", "strips", "onednn"])
def test_a_model_of_1_gb_takes_hardly_more_to_load(folder, layout):
    done = run_script(LOAD, str(folder), layout, env=environment())
    if layout == "onednn" and b"there is no layout onednn" in done.stderr:
        pytest.skip("this processor has no such kernels")
    size, peak = json.loads(done.stdout)
    assert 1e9 < size < 1.2e9
    assert peak < 1.1 * size, peak / size
