"""Models that compute NaN or infinity: every loop and program names the model and stops."""
import pytest
import torch
from safetensors.torch import save_file

from decoding import GREEDY, Sampling, autoregressive, benchmark, speculative_sampling
from decoding.coupling import Coupled, SharedNoise
from decoding.drafters import LookupDrafter
from decoding.proof.toys import HashModel
from decoding.sampling import to_host, to_probs
from model import GPT2, GPT2Config
from tests.commands import ask, write_pair
from weights.check import main as check
from weights.families import FAMILIES
from weights.training.folder import write_folder

NAN, INF = float("nan"), float("inf")
SETTINGS = [GREEDY, Sampling(), Sampling(0.5, top_k=2), Sampling(top_p=0.9),
            Sampling(2.0, top_k=3, top_p=0.5)]
BROKEN = [[0.0, NAN, 1.0], [NAN, NAN, NAN], [0.0, INF, 1.0], [INF, INF, 0.0], [-INF, -INF, -INF]]


class Broken(HashModel):
    """A model that is right at first, and whose row after some text is broken."""

    def __init__(self, row, length):
        super().__init__(seed=1)
        self.broken, self.length = torch.tensor(row, dtype=torch.float64), length

    def row(self, text):
        return super().row(text) if len(text) < self.length else self.broken


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_row_that_stands_for_no_distribution_becomes_nan_and_others_do_not(sampling, dtype):
    sound = [[-INF, 0.0, -INF], [-INF, 2.0, 1.0], [0.0, -1.0, -6e4]]
    probs = to_probs(torch.tensor(BROKEN + sound, dtype=dtype), sampling)
    assert probs[: len(BROKEN), 0].isnan().all()
    assert not probs[len(BROKEN):].isnan().any()


def test_ids_come_to_the_host_exactly_and_the_target_is_named_first():
    ids, sound = torch.tensor([0, 50256, 2**24 - 1]), torch.ones(2, 5)
    assert to_host([ids], sound, sound) == to_host([ids], sound) == [0, 50256, 2**24 - 1]
    assert to_host([ids[:0]], sound[:0], sound) == []
    assert all(type(number) is int for number in to_host([ids], sound))
    for p, q, who in ((sound * NAN, sound, "target"), (sound, sound * NAN, "draft"),
                      (sound * NAN, sound * NAN, "target")):
        with pytest.raises(ValueError, match=f"the {who} computes NaN or infinity"):
            to_host([ids], p, q)


@pytest.mark.parametrize("sampling", SETTINGS)
@pytest.mark.parametrize("row", BROKEN)
def test_both_loops_stop_and_name_the_model(row, sampling):
    generator = torch.Generator().manual_seed(0)
    sound, broken = HashModel(seed=1), Broken(row, length=5)
    options = {"sampling": sampling, "generator": generator}
    with pytest.raises(ValueError, match="the target computes"):
        autoregressive(broken, [1], 9, **options)
    for draft in (sound, broken, LookupDrafter(3)):
        with pytest.raises(ValueError, match="the target computes"):
            speculative_sampling(broken, draft, [1], 9, **options)
    with pytest.raises(ValueError, match="the draft computes"):
        speculative_sampling(sound, broken, [1], 9, **options)
    assert len(autoregressive(broken, [1], 4, **options).tokens) == 4  # it is right that far


def test_shared_noise_does_not_hide_it():
    noise = SharedNoise(torch.Generator().manual_seed(0))
    sound, broken = (Coupled(model, Sampling(), noise)
                     for model in (HashModel(1), Broken([0.0, NAN, 1.0], 5)))
    for target, draft, who in ((broken, sound, "target"), (sound, broken, "draft")):
        with pytest.raises(ValueError, match=f"the {who} computes"):
            speculative_sampling(target, draft, [1], 9, sampling=GREEDY)


def save_official(weights, path):
    """Write float32 weights as the official files have them, the matrices turned round."""
    save_file({name: (weight.T if name.endswith(FAMILIES["gpt2"].turned) else weight).contiguous()
               for name, weight in weights.items()}, path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The options of a small pair, and a model of finite weights that overflow."""
    folder = tmp_path_factory.mktemp("models")
    options = write_pair(folder)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, n_vocab=257, n_ctx=96)
    weights = GPT2(config).state_dict()
    vocabulary = next((folder / "target").glob("*.tiktoken")).read_bytes()
    write_folder(folder / "huge", config, GPT2(config).state_dict(), vocabulary, card="")
    weights["h.0.mlp.c_proj.bias"][:8] = weights["h.0.attn.c_proj.bias"][:8] = 3e38
    save_official(weights, folder / "huge" / "model.safetensors")
    return options, str(folder / "target"), str(folder / "huge")


@pytest.mark.parametrize("more", [[], ["--temperature", 1], ["--json"], ["--no-cache"],
                                  ["--temperature", 1, "--coupling", "gumbel"],
                                  ["--gamma", "auto"], ["--dtype", "bfloat16"]], ids=str)
def test_generate_says_which_model(more, folders, capsys):
    options, sound, huge = folders
    for pair, who in (({"--target": huge, "--draft": "lookup"}, "target"),
                      ({"--target": huge, "--draft": sound}, "target"),
                      ({"--target": sound, "--draft": huge}, "draft")):
        named = [word for item in pair.items() for word in item]
        answer = ask(capsys, *options, *named, *more, "--max-new-tokens", 9, "Once")
        assert answer.code == 2 and answer.out == ""
        assert f": the {who} computes NaN or infinity instead of logits; take a wider --dtype" in (
            answer.err.splitlines()[-1])


@pytest.mark.parametrize("more", [["--tree", "2x2"], ["--tree", "2,2", "--temperature", 1],
                                  ["--rule", "block", "--temperature", 1], ["--prompts-file"]],
                         ids=str)
def test_other_loops_say_which_model(more, folders, capsys, tmp_path):
    options, sound, huge = folders
    (tmp_path / "p.jsonl").write_text('{"prompt": "Once"}')
    more = [*more, tmp_path / "p.jsonl"] if "--prompts-file" in more else [*more, "Once"]
    for target, draft, who in ((huge, sound, "target"), (sound, huge, "draft")):
        answer = ask(capsys, *options, "--target", target, "--draft", draft,
                     "--max-new-tokens", 9, *more)
        assert answer.code == 2 and answer.out == ""
        assert f": the {who} computes NaN or infinity" in answer.err.splitlines()[-1]


def test_half_precision_that_overflows_is_told_to_be_wider(folders, capsys, tmp_path):
    """Weights that float16 holds, and products that it does not."""
    options, sound, _ = folders
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, n_vocab=257, n_ctx=96)
    weights = GPT2(config).state_dict()
    weights["h.0.mlp.c_proj.bias"][:8] = 6e4
    weights["h.0.attn.c_proj.bias"][:8] = 6e4
    vocabulary = next((tmp_path / sound).glob("*.tiktoken")).read_bytes()
    write_folder(tmp_path / "big", config, weights, vocabulary, card="")
    named = ["--target", tmp_path / "big", "--draft", "lookup", "--max-new-tokens", 5]
    assert ask(capsys, *options, *named, "Once").code == 0
    answer = ask(capsys, *options, *named, "--dtype", "float16", "Once")
    assert answer.code == 2 and "the target computes NaN" in answer.err


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_the_benchmark_makes_no_table_of_it(temperature, folders, capsys, tmp_path):
    _, sound, huge = folders
    (tmp_path / "p.txt").write_text("Once")
    code = benchmark.main(["--target", sound, "--draft", huge, "--layout", "plain", "--prompts",
                           str(tmp_path / "p.txt"), "--lengths", "6", "--gammas", "2", "--repeats",
                           "1", "--temperatures", temperature, "--out", str(tmp_path / "r")])
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and "the draft computes NaN" in err.splitlines()[-1]
    assert not (tmp_path / "r" / "tables.md").exists()


def test_check_refuses_it(folders, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["check", folders[2]])
    monkeypatch.setattr("weights.check.PLAIN_ENGLISH", "The old man")
    assert check() == 2
    out, err = capsys.readouterr()
    assert out == "" and "the model computes NaN or infinity" in err and err.count("\n") == 1
