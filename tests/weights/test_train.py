"""`python -m weights.train`: what it writes, shows, goes on with and refuses."""
import math
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model import GPT2, GPT2Config
from tests.commands import PressesCtrlC
from tests.weights.training_toys import (
    same,
    story,
    ticking,
    toy_model,
    toy_trainer,
)
from weights import load_model, load_tokenizer, vocabulary_difference
from weights.tokenizer import END_OF_TEXT
from weights.train import main, parse
from weights.training import pair
from weights.training.loop import Trainer
from weights.training.objective import next_token_loss
from weights.training.progress import Progress
from weights.training.recipe import Recipe, least_memory
from weights.training.resume import read_checkpoint

SMALL = ("--target 2,2,16 --draft 1,2,16 --vocab 280 --context 16 --batch 2 --steps 4 "
         "--dropout 0.1 --device cpu")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text(END_OF_TEXT.join(story(60, seed) for seed in range(6)))
    return path


def train(text, out, options=SMALL):
    return main([str(text), "--out", str(out), *shlex.split(options)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder that the command wrote, without interruption."""
    folder = tmp_path_factory.mktemp("made")
    text = folder / "stories.txt"
    text.write_text(END_OF_TEXT.join(story(60, seed) for seed in range(6)))
    trainers = []
    write = pair.PairTraining.write

    def write_and_note(self, trainer, *rest):  # what was trained can be seen nowhere else
        trainers.append(trainer)
        write(self, trainer, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair.PairTraining, "write", write_and_note)
        assert train(text, folder / "my-pair") == 0
    return SimpleNamespace(out=folder / "my-pair", target=trainers[0], draft=trainers[-1])


def test_out_folder_holds_two_models_and_nothing_else(made):
    files = ["README.md", "config.json", "model.safetensors", "vocabulary.tiktoken"]
    assert sorted(str(path.relative_to(made.out)) for path in made.out.rglob("*")
                  if path.is_file()) == sorted(
        f"{folder}/{file}" for folder in ("large", "small") for file in files)


def test_written_weights_give_the_trained_logits(made):
    for folder, trainer, sizes in (("large", made.target, (2, 2, 16)),
                                   ("small", made.draft, (1, 2, 16))):
        loaded, trained = load_model(made.out / folder), GPT2(trainer.model.config).eval()
        trained.load_state_dict(trainer.weights)
        config = loaded.config
        assert (config.n_layer, config.n_head, config.n_embd, config.n_vocab,
                config.n_ctx) == (*sizes, 280, 16)
        tokens = torch.randint(280, (3, 16), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            wanted = trained(tokens)
            torch.testing.assert_close(loaded(tokens), wanted, rtol=0,
                                       atol=4e-3 * wanted.abs().max().item())
        for name, weight in loaded.state_dict().items():
            assert torch.equal(weight, trainer.weights[name].half().float()), name


def test_draft_learns_from_the_target_in_the_folder(made):
    target = load_model(made.out / "large")
    assert same(dict(made.draft.teacher.state_dict()), dict(target.state_dict()))


@pytest.mark.parametrize("text", [
    "", "Once upon a time", "Größe, naïve, \u200b\u202e", "从前有一位国王 🙂👩‍👩‍👧",
    "\x00\r\n\t  \ufeff", END_OF_TEXT])
def test_written_tokenizer_round_trips_any_text(made, text):
    tokenizer = load_tokenizer(made.out / "small")
    assert vocabulary_difference(tokenizer, load_tokenizer(made.out / "large")) is None
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.n_vocab == 280 and tokenizer.eot_token == 279


def test_card_says_on_what_how_and_how_good(made):
    large, small = ((made.out / folder / "README.md").read_text(encoding="utf-8")
                    for folder in ("large", "small"))
    for card, trainer in ((large, made.target), (small, made.draft)):
        assert card.startswith("# my-pair/")
        size = sum(weight.numel() for weight in trainer.weights.values())
        for fact in (f"{size:,} parameters", "stories.txt, 6 documents", "280 of GPT-2's tokens",
                     "context 16", "| 4 of 2 × 16 tokens", "| **held-out loss** | **"):
            assert fact in card, fact
        measurements = [line for line in card.splitlines() if re.match(r"\| \d+ ", line)]
        assert len(measurements) == len(trainer.curve) == 5
    assert "2 layers" in large and "0.1, 0" in large and "Σ" not in large
    assert "1 layers" in small and "0.9 KL(target ‖ draft) + 0.1 next-token loss" in small
    assert "**Σ min(p, q)** with its target" in small


def test_progress_is_a_line_for_each_measurement(capsys):
    trainer, progress = toy_trainer(teacher=toy_model(1)), Progress("draft")
    while trainer.share < 1:
        trainer.advance()
        progress.show(trainer)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 4 and "\r" not in err
    for word in ("draft ", " 100%", "step 4", "loss", "held-out loss", "Σ min(p,q) 0.",
                 "greedy agreement 0.", "0:00 left"):
        assert word in lines[-1], word


def test_progress_rewrites_one_line_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("weights.training.progress.monotonic", ticking().__call__)
    trainer, progress = toy_trainer(Recipe(1e-2, 0.1, 4, steps=200)), Progress("target")
    for _ in range(9):
        trainer.advance()
        progress.show(trainer)
    err = capsys.readouterr().err
    assert err.count(f"\r{' ' * 79}\r") > 2 and 0 < err.count("\n") < 3
    assert "\033" not in err  # not every terminal can erase
    assert all(len(shown) < 80 for shown in re.split("[\r\n]", err))


def interrupt(monkeypatch, text, out, when):
    """Train, and press Ctrl-C when the terminal shows `when`. Return all that it has shown."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", PressesCtrlC(when))
        assert train(text, out) == 130
        return sys.stderr.getvalue()


@pytest.mark.parametrize("at_step, during", [(2, "target"), (2, "draft")])
def test_interrupt_keeps_the_best_and_resume_goes_on(made, tmp_path, text, monkeypatch, capsys,
                                                     at_step, during):
    out, usual = tmp_path / "out", signal.getsignal(signal.SIGINT)
    shown = interrupt(monkeypatch, text, out, f"{during:6}  50%  step {at_step} ")
    assert "the same command with --resume goes on" in shown.splitlines()[-1]
    assert signal.getsignal(signal.SIGINT) is usual
    names = ["large"] if during == "target" else ["large", "small"]
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint.pt", *names]
    assert read_checkpoint(out / "checkpoint.pt")["trainer"]["step"] == at_step  # it did stop there
    for name in names:
        assert load_model(out / name).config.n_vocab == load_tokenizer(out / name).n_vocab
        assert "held-out loss" in (out / name / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert train(text, out, SMALL + " --resume") == 0
    steps = re.findall(r"^(target|draft) +\d+%  step (\d)", capsys.readouterr().err, re.MULTILINE)
    every_step = [(name, step) for name in ("target", "draft") for step in "1234"]
    assert steps == every_step[every_step.index((during, str(at_step))) + 1:]
    for name in ("large", "small"):
        again, once = (folder / name / "model.safetensors" for folder in (out, made.out))
        assert again.read_bytes() == once.read_bytes()
    assert not (out / "checkpoint.pt").exists()


def test_minutes_are_shared_out():
    options = parse(["t", "--out", "o", "--minutes", "10"])
    target, draft = pair.make_recipe(options, "target"), pair.make_recipe(options, "draft")
    assert (target.seconds, draft.seconds, target.steps) == (360, 240, math.inf)
    assert pair.budget(options) == "6:00 minutes for the target, 4:00 for the draft"
    assert parse(["t", "--out", "o"]).minutes == 10


# ---- what is refused: one line, code 2, and no training

def refused(capsys, arguments):
    """The one line, of the command that must end with code 2."""
    try:
        code = main(["--minutes", "0.01", *arguments])  # if it should begin, no long training
    except SystemExit as stop:  # argparse
        code = stop.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("python -m weights.train: ")
    return err


BAD_TEXTS = {"missing": (None, "cannot read"), "empty": (b"", "is empty"),
             "only space": (b" \n<|endoftext|>\n ", "is empty"),
             "not UTF-8": (b"caf\xe9", "is not UTF-8"),
             "shorter than a block": (b"Once upon a time.", "at least 34 are needed")}


@pytest.mark.parametrize("as_held_out", [False, True])
@pytest.mark.parametrize("what", BAD_TEXTS)
def test_bad_text_is_refused(what, as_held_out, text, tmp_path, capsys):
    contents, words = BAD_TEXTS[what]
    bad = tmp_path / "bad.txt"
    if contents is not None:
        bad.write_bytes(contents)
    arguments = [str(text), "--held-out", str(bad)] if as_held_out else [str(bad)]
    line = refused(capsys,
                   [*arguments, "--out", str(tmp_path / "new" / "out"), "--context", "16"])
    assert str(bad) in line and words.replace("34", "17" if as_held_out else "34") in line
    assert not (tmp_path / "new").exists()  # nothing is left
    (tmp_path / "mine").mkdir()
    refused(capsys, [*arguments, "--out", str(tmp_path / "mine"), "--context", "16"])
    assert list((tmp_path / "mine").iterdir()) == []  # and what was there before still is


def test_a_folder_is_no_text(tmp_path, capsys):
    assert "cannot read" in refused(capsys, [str(tmp_path), "--out", str(tmp_path / "out")])


@pytest.mark.parametrize("options, words", [
    ("--target 12,8", "layers,heads,width"), ("--target 12,8,256,4", "layers,heads,width"),
    ("--draft 0,8,256", "layers,heads,width"), ("--draft a,b,c", "layers,heads,width"),
    ("--draft 2,8,250", "250 is not divisible by 8"), ("--vocab 256", "from 257 to 50257"),
    ("--vocab 50258", "from 257 to 50257"), ("--minutes 0", "from 0.001"),
    ("--minutes inf", "to 10000000"), ("--minutes 5e-324", "from 0.001"),
    ("--minutes 1e308", "to 10000000"), ("--steps 0", "at least 1"),
    ("--minutes 1 --steps 1", "not both"), ("--context 0", "at least 1"),
    ("--batch 0", "at least 1"), ("--dropout 1", "from 0 to 0.9"), ("--device tpu", "tpu"),
    ("--resume", "nothing to resume"),
])
def test_bad_options_are_refused(options, words, text, tmp_path, capsys):
    assert words in refused(capsys,
                            [str(text), "--out", str(tmp_path / "out"), *shlex.split(options)])
    assert not (tmp_path / "out").exists()


def test_out_folder_must_be_given_empty_and_writable(text, tmp_path, capsys):
    assert "--out" in refused(capsys, [str(text)])
    assert "cannot write" in refused(capsys,
                                     [str(text), "--out", str(text / "inside")])
    assert "cannot write" in refused(capsys, [str(text), "--out", str(text)])
    too_long = tmp_path / "new" / ("x" * 300)
    assert "cannot write" in refused(capsys, [str(text), "--out", str(too_long)])
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("mine")
    line = refused(capsys, [str(text), "--out", str(tmp_path / "full")])
    assert "it holds thesis.doc; name a new folder" in line
    (tmp_path / "full" / "thesis.doc").rename(tmp_path / "full" / "checkpoint.pt")
    assert "--resume goes on" in refused(capsys,
                                         [str(text), "--out", str(tmp_path / "full")])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0,
                    reason="the superuser may write anywhere")
def test_write_protected_folder_is_refused(text, tmp_path, capsys):
    (tmp_path / "locked").mkdir(mode=0o555)
    assert "cannot write" in refused(capsys,
                                     [str(text), "--out", str(tmp_path / "locked")])


@pytest.mark.parametrize("change, words", [
    ("--steps 5", "--steps 4, not --steps 5"),
    ("--draft 1,4,16", "--draft 1,2,16, not --draft 1,4,16"),
    ("--seed 1", "--seed 0, not --seed 1"), ("text", "another text"),
    ("damage", "is no checkpoint"),
])
def test_resume_refuses_another_run(change, words, text, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    interrupt(monkeypatch, text, out, "step 1 ")
    options = SMALL + " --resume"
    if change == "text":
        text.write_text(text.read_text() + " More.")
    elif change == "damage":
        (out / "checkpoint.pt").write_bytes(b"?")
    else:
        options += " " + change
    assert train(text, out, options) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err


FOREIGN = {
    "text": b"Once upon a time",
    "nothing": b"",
    "zip": None,
    "pickle": pickle.dumps({"settings": {}, "name": "target", "trainer": {}}),
    "a class": pickle.dumps(Path("/")),
    "a list": [1, 2],
    "a model": {"wte.weight": torch.zeros(2, 2)},
    "settings": {"settings": 3, "name": "target", "trainer": {}},
    "trainer": "the trainer's state is another",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_checkpoint_is_refused_and_stays(what, text, tmp_path, monkeypatch, capsys):
    out, contents = tmp_path / "out", FOREIGN[what]
    interrupt(monkeypatch, text, out, "step 1 ")
    checkpoint = out / "checkpoint.pt"
    if isinstance(contents, bytes):
        checkpoint.write_bytes(contents)
    elif what == "zip":
        with zipfile.ZipFile(checkpoint, "w") as file:
            file.writestr("letter.txt", "Dear reader")
    elif what == "trainer":
        whole = read_checkpoint(checkpoint)
        whole["trainer"]["model"] = {"wte.weight": torch.zeros(2, 2)}
        torch.save(whole, checkpoint)
    else:
        torch.save(contents, checkpoint)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert train(text, out, SMALL + " --resume") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "documents" not in line]
    assert len(lines) == 1
    assert f"{checkpoint} is no checkpoint of python -m weights.train" in lines[0]
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("option", [
    f"--target 1,1,{10**12}", f"--target {10**12},1,1", f"--draft 1,1,{10**12}",
    f"--batch {10**14}"])
def test_what_no_memory_holds_is_refused(text, tmp_path, capsys, option):
    small = SMALL.replace("--steps 4", "")  # minutes are given there
    arguments = [str(text), "--out", str(tmp_path / "out"), *shlex.split(f"{small} {option}")]
    assert "GB of memory, and there are " in refused(capsys, arguments)
    assert not (tmp_path / "out").exists()


def test_the_least_memory_is_less_than_a_training_takes():
    model = GPT2(GPT2Config(n_layer=2, n_head=2, n_embd=64, n_vocab=300, n_ctx=32))
    weights, ids = 0, set()

    def note(tensor):  # what the backward pass keeps, weights apart
        ids.add((tensor.data_ptr(), tensor.nbytes))
        return tensor

    for weight in model.parameters():
        weights += 20 * weight.numel()
    own = {(weight.data_ptr(), weight.nbytes) for weight in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        tokens = torch.zeros(4, 32, dtype=torch.long)
        loss = next_token_loss(model(tokens), tokens)
    kept = sum(size for pointer, size in ids - own)
    least = least_memory(2, 64, 300, 32, 4)
    assert loss > 0 and (weights + kept) / 3 < least < weights + kept


@pytest.mark.parametrize("option", [f"--target 1,1,{10**12}", f"--batch {10**14}"])
def test_out_of_memory_is_one_line_and_leaves_nothing(text, tmp_path, capsys, option, monkeypatch):
    """No machine has an address for each of so many weights, or ids in the first step."""
    monkeypatch.setattr(pair, "check_memory", lambda *_: None)
    assert train(text, tmp_path / "out", f"{SMALL} {option}") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("python -m weights.train: out of memory (")
    assert last.endswith("try a smaller --batch, --context or --target")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="there is no limit on the size of files")
# for no weights; for the weights, but no checkpoint
@pytest.mark.parametrize("room", [2000, 60000])
def test_a_full_disk_is_one_line_and_loses_nothing(room, text, tmp_path):
    """The disk takes no file larger than `room` bytes from the second checkpoint on."""
    script = """
import resource, sys
from weights.training import pair
from weights.training.loop import Trainer
save = pair.PairTraining.save
def save_with_less_room(self, trainer, name):
    if trainer.step > 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))
    save(self, trainer, name)
pair.PairTraining.save = save_with_less_room
from weights.train import main
sys.exit(main(sys.argv[2:]))
"""
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", script, str(room), str(text), "--out", str(out),
                           *shlex.split(SMALL)],
                          check=False, capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("python -m weights.train: reading or writing failed: ")
    assert "is the disk full?" in last if room == 60000 else "File too large" in last
    assert read_checkpoint(out / "checkpoint.pt")["trainer"]["step"] == 0  # the old one, whole
    assert not list(out.rglob("*.new"))
    if room == 60000:
        assert "the best target so far is in" in done.stderr
        assert load_model(out / "large").config.n_vocab == 280


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pipes close in another way there")
@pytest.mark.parametrize("name", ["target", "draft"])
def test_a_training_that_diverges_is_one_line_and_keeps_the_best(name, text, tmp_path, monkeypatch,
                                                                 capsys):
    """It learns well for three steps, and then much too fast."""
    right = Trainer.learn

    def learn(self):
        if self.step == 3 and name == ("target" if self.teacher is None else "draft"):
            self.recipe = replace(self.recipe, learning_rate=1e30)
        right(self)

    monkeypatch.setattr(Trainer, "learn", learn)
    out = tmp_path / "o"
    assert train(text, out, SMALL.replace("--steps 4", "--steps 40")) == 2
    printed, err = capsys.readouterr()
    *_, kept, last = err.splitlines()
    assert printed == "" and "nan" not in err
    assert last.startswith(f"python -m weights.train: the {name} computes NaN or infinity")
    folder = out / pair.FOLDER[name]
    assert kept == f"the best {name} so far is in {folder}"
    assert all(weight.isfinite().all() for weight in load_model(folder).state_dict().values())
    assert "weights | of step 2, " in (folder / "README.md").read_text()


def test_training_goes_on_when_nobody_reads_its_progress(text, tmp_path):
    command = [sys.executable, "-m", "weights.train", str(text), "--out", str(tmp_path / "out"),
               *shlex.split(SMALL)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2],
                          stderr=subprocess.PIPE) as process:
        process.stderr.close()
        process.stderr = None
        assert process.wait(timeout=180) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["large", "small"]


def test_help_and_refusals_do_without_torch(text, tmp_path):
    program = ("import sys; sys.modules['torch'] = None\nfrom weights.train import main\n"
               "print(main(sys.argv[1:3] + ['--out', sys.argv[3] + '/out']), "
               "main(sys.argv[2:3] + ['--out', sys.argv[3]]))\nmain(['--help'])")
    (tmp_path / "short.txt").write_text("short")
    result = subprocess.run([sys.executable, "-c", program, "--context=16",
                             str(tmp_path / "short.txt"), str(tmp_path)],
                            check=False, capture_output=True, text=True,
                            cwd=Path(__file__).parents[2])
    assert result.stdout.startswith("2 2\n") and "--resume" in result.stdout, result.stderr
    assert result.stderr.count("\n") == 2
