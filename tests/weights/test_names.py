"""What a name means, weights.check, and what a fresh process spends on either."""
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from decoding.bench.counting_gpt2 import write_checkpoint
from decoding.cli.models import usual_draft
from decoding.cli.options import parse
from weights import WeightsError
from weights.check import check, main
from weights.registry import (
    BUNDLED,
    DRAFT_OF,
    KNOWN_NAMES,
    OFFICIAL,
    OFFICIAL_BYTES,
    PUBLISHED,
    Repository,
    resolve,
)

ROOT = Path(__file__).parents[2]


def run(*arguments, **environment):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
                          capture_output=True, text=True, timeout=300, check=False)


def test_what_a_name_means(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("gpt2", "mine", "owner/local"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file").touch()
    assert resolve("gpt2") == OFFICIAL["gpt2"]
    assert resolve("tales-large") == BUNDLED["tales-large"]
    assert resolve("./gpt2") == resolve(Path("gpt2")) == Path("gpt2")
    assert resolve("owner/local") == Path("owner/local")
    assert resolve("owner/remote") == Repository("owner/remote", "main")
    assert resolve("owner/local@main") == Repository("owner/local", "main")
    assert resolve("o/r@refs/pr/12") == Repository("o/r", "refs/pr/12")
    assert resolve("EleutherAI/gpt-neo-125m") == Repository(
        "EleutherAI/gpt-neo-125m", "21def0189f5705e2521767faed922f1f15e7d7db")
    assert resolve("EleutherAI/gpt-neo-125m@main") == Repository("EleutherAI/gpt-neo-125m", "main")
    assert resolve("EleutherAI/pythia-6.9b") == Repository("EleutherAI/pythia-6.9b", "main")
    for name, message in [("mine", "unknown model 'mine'; known are tales-large.*write ./name"),
                          ("", "unknown model ''"),
                          ("./none", "there is no folder none"),
                          (str(tmp_path / "none"), "there is no folder"),
                          ("a/b/c", "there is no folder a/b/c"),
                          ("a/b@", "there is no folder a/b@"),
                          ("a/b@c@d", "there is no folder a/b@c@d"),
                          ("a/b@c//d", "there is no folder a/b@c//d"),
                          ("./file", "is a file; name the folder"),
                          ("./two\nlines", "there is no folder two lines")]:
        with pytest.raises(WeightsError, match=message):
            resolve(name)


def test_every_draft_has_a_known_name():
    assert set(DRAFT_OF) | set(DRAFT_OF.values()) == set(KNOWN_NAMES)
    assert not set(DRAFT_OF.values()) & {"gpt2-large", "EleutherAI/pythia-1.4b-deduped"}
    for target, draft in DRAFT_OF.items():
        assert size_of(draft) < size_of(target)


def size_of(name):
    if name in BUNDLED:
        return (BUNDLED[name] / "model.safetensors").stat().st_size / 1e6
    return OFFICIAL_BYTES[name] / 1e6 if name in OFFICIAL else PUBLISHED[name].megabytes


def test_a_target_alone_finds_its_draft():
    pythia = "EleutherAI/pythia-1.4b-deduped"
    assert parse(["--target", pythia]).draft == "EleutherAI/pythia-70m-deduped"
    assert usual_draft(f"{pythia}@step1000") == "EleutherAI/pythia-70m-deduped"
    assert parse(["--target", "facebook/opt-350m"]).draft == "facebook/opt-125m"
    with pytest.raises(WeightsError, match="no draft is known for EleutherAI/pythia-70m-deduped"):
        usual_draft("EleutherAI/pythia-70m-deduped")


def test_check_passes_for_the_bundled_pair(monkeypatch, capsys):
    for name in BUNDLED:
        monkeypatch.setattr(sys, "argv", ["check", name])
        assert main() == 0
        assert capsys.readouterr().out.startswith(f"{name}: pass: greedy decoding of ")


def test_check_notices_a_matrix_the_wrong_way_round(tmp_path, monkeypatch, capsys):
    for folder in BUNDLED.values():
        turned = shutil.copytree(folder, tmp_path / folder.name)
        state = load_file(turned / "model.safetensors")
        save_file({name: weight.T.contiguous() if name.endswith("attn.c_proj.weight") else weight
                   for name, weight in state.items()}, turned / "model.safetensors")
        monkeypatch.setattr(sys, "argv", ["check", str(turned)])
        assert main() == 1
        assert capsys.readouterr().out.startswith(f"{turned}: FAIL: ")


def test_check_is_weaker_for_an_unknown_model_and_says_so():
    passed, report = check(str(BUNDLED["tales-small"]))
    assert passed
    assert "weaker check" in report


@pytest.mark.parametrize("arguments, code",
                         [("--help", 0), ("nobody", 2), ("./nowhere", 2), ("--unknown", 2)])
def test_check_answers_without_torch(arguments, code):
    done = run("-X", "importtime", "-m", "weights.check", arguments)
    assert done.returncode == code
    modules = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()
               if line.startswith("import time:")}
    assert "weights.registry" in modules
    assert not {"torch", "tiktoken", "huggingface_hub"} & modules
    spoken = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert code == 0 or arguments.startswith("--") or len(spoken) == 1


def test_names_and_tokenizers_need_no_torch():
    done = run("-c", "import sys, weights, weights.registry; "
                     "weights.load_tokenizer('tales-large'); weights.load_tokenizer('gpt2'); "
                     "print('torch' in sys.modules, 'huggingface_hub' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


PROGRAMS = {"decoding": ["decoding.generate", "decoding.benchmark", "decoding.animation",
                         "decoding.bench.transformers", "decoding.bench.batches",
                         "decoding.bench.llama_cpp", "decoding.bench.layouts",
                         "decoding.bench.round", "decoding.bench.rules", "decoding.bench.join",
                         "decoding.bench.parallel", "decoding.evaluate",
                         "decoding.bench.counting"],
            "weights": ["weights.check", "weights.convert", "weights.train"], "model": []}


@pytest.mark.parametrize("package", ["decoding", "weights",
                                     pytest.param("model", marks=pytest.mark.slow)])
def test_a_package_says_what_there_is_to_run(package):
    done = run("-m", package)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 66
    files = (path for path in (ROOT / package).rglob("*.py") if path.name != "__main__.py")
    runnable = [path for path in files
                if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in runnable]
    if package == "decoding":
        names.remove("decoding.quality.cage")  # run by decoding.evaluate, not by people
    assert sorted(names) == sorted(PROGRAMS[package])
    for name in names:
        line = next(line for line in done.stdout.splitlines() if f"python -m {name} " in line)
        assert "second" in line or "minute" in line


@pytest.mark.parametrize("package", ["decoding", "weights"])
def test_what_there_is_to_run_is_said_without_torch(package):
    done = run("-c", "import runpy, sys; sys.modules['torch'] = None; "
                     f"runpy.run_module('{package}', run_name='__main__')")
    assert done.returncode == 0 and "python -m" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("package", ["decoding", "weights"])
def test_public_names_are_seen_without_torch_and_are_there(package):
    done = run("-c", f"import sys, {package} as p; print(*dir(p)); print('torch' in sys.modules); "
                     "print([getattr(p, name) is not None for name in p.__all__], "
                     "set(p.__all__) == set(p.HOME))")
    names, torch_was_imported, there = done.stdout.splitlines()
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(names.split()) and torch_was_imported == "False", done.stderr
    assert there == f"{[True] * len(module.__all__)} True"
    with pytest.raises(AttributeError, match="no attribute 'speculate'"):
        getattr(module, "speculate")  # noqa: B009


@pytest.mark.slow
def test_type_checkers_know_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    names = [f"{package}.{name}" for package in ("decoding", "weights")
             for name in importlib.import_module(package).__all__]
    script = tmp_path / "names.py"
    script.write_text("import decoding, weights\n"
                      + "".join(f"reveal_type({name})\n" for name in names)
                      + "decoding.speculate\n")
    config = tmp_path / "mypy.ini"  # without torch, which takes half a minute to read
    config.write_text("[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n"
                      "[mypy-torch.*,matplotlib.*,huggingface_hub.*]\nfollow_imports = skip\n")
    done = run("-m", "mypy", "--config-file", str(config), "--cache-dir", str(tmp_path / "cache"),
               str(script))
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(types) == len(names), done.stdout + done.stderr
    assert not [name for name, found in zip(names, types, strict=True) if found == "Any"]
    assert "no attribute" in done.stdout and "speculate" in done.stdout


@pytest.mark.slow
def test_weights_needs_nothing_of_decoding():
    done = run("-c", "import sys; sys.modules['decoding'] = None; "
                     "import weights.train, weights.check, weights.training.pair, weights.output")
    assert done.returncode == 0, done.stderr


FRESH = """
import json, re, sys, torch
def peak():  # the most memory so far; ru_maxrss would start at what the parent process had
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
before = peak()
from weights import load_model
model = load_model("gpt2")
spent = peak() - before
weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
compiler = "torch._dynamo" in sys.modules or "sympy" in sys.modules
from decoding import autoregressive
from weights.check import check
tokens = autoregressive(model, [50250], 10).tokens
print(json.dumps([spent / weights, compiler, tokens, *check("gpt2")]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_official_name_with_its_file_in_the_cache(tmp_path):
    """Small's full shape, found in the hub's cache with no network to ask.

    The file counts, so `check` must not pass it.
    """
    repository = OFFICIAL["gpt2"]
    home = tmp_path / f"models--{repository.id.replace('/', '--')}"
    snapshot = home / "snapshots" / repository.revision
    write_checkpoint(snapshot, "small")
    (snapshot / "config.json").unlink()  # the official shape is known by name
    done = run("-c", FRESH, HF_HUB_CACHE=str(tmp_path), HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    peak, compiler, tokens, passed, report = json.loads(done.stdout)
    assert peak < 1.5
    assert not compiler  # PyTorch's compiler takes seconds to import, and loading has no use for it
    assert tokens == [50251, 50252, 50253, 50254, 50255, 50256, 0, 1, 2, 3]
    assert not passed
    assert report.startswith("greedy decoding of [464, 3290] was expected to give [373, 1043,")
    assert "gave [3291, 3292," in report
