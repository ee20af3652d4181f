"""Racing against other libraries: clean samples, turns, the limit, the table, GGUF, the driver."""
import os
import shutil
import sys
from types import SimpleNamespace

import gguf
import pytest
import torch

from decoding.bench import bandwidth, clean, llama_cpp_build, turns
from decoding.bench.contestants import our_contestants
from decoding.bench.counting_gpt2 import write_checkpoint
from decoding.bench.llama_cpp import main as llama_cpp
from decoding.bench.llama_cpp_peer import Driver
from decoding.bench.peer_table import Row, header, impossible, line
from decoding.bench.peers import Pair, counting_prompt, parse_pair
from decoding.bench.side_by_side import nbytes
from decoding.bench.to_gguf import write_gguf
from decoding.bench.transformers_peer import contestants
from decoding.bench.turns import Contestant, Record, take_turns
from weights import load_model

OURS, SPECULATIVE, THEIRS = Contestant("ours", 0), Contestant("ours", 2), Contestant("x", 0)


def test_the_threads_that_waited_are_found_in_proc(tmp_path):
    for pid, task, wait in ((7, 7, 10**9), (7, 8, 2 * 10**9), (9, 9, 10**8), (11, 11, 10**10)):
        (tmp_path / str(pid) / "task" / str(task)).mkdir(parents=True)
        (tmp_path / str(pid) / "task" / str(task) / "schedstat").write_text(f"5 {wait} 6\n")
    assert clean.waited([7, 9], tmp_path) == pytest.approx(3.1)
    assert clean.waited([], tmp_path) == clean.waited([12], tmp_path) == 0
    assert not clean.can_tell(tmp_path)
    assert clean.is_clean(1.0, 0.03) and not clean.is_clean(1.0, 0.031)


def scripted(said, contestant, sizes, seconds=0.01):
    """A contestant that writes 1, 2, 3, ... in rounds of these sizes, and tells when it does."""
    def start():
        written = 0
        for size in sizes:
            said.append(contestant)
            yield seconds, [written + i + 1 for i in range(size)]
            written += size
    return start


def test_turns_are_taken_and_only_equal_rounds_are_timed(monkeypatch):
    """Ten tokens: ours one a round; speculative three a round, but less where less is drafted."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.025)  # three rounds of .01 s
    waits = iter([0.0, 0.0] * 6 + [0.0, 0.001] * 100)
    monkeypatch.setattr(turns, "waited", lambda pids: next(waits))
    said = []
    records = {OURS: Record(), SPECULATIVE: Record()}
    take_turns({OURS: scripted(said, OURS, [1] * 10),
                SPECULATIVE: scripted(said, SPECULATIVE, [3, 3, 3, 1])}, records, 10, [])
    assert said == [OURS] * 3 + [SPECULATIVE] * 3 + [OURS] * 3 + [SPECULATIVE] + [OURS] * 4
    plain, speculative = records[OURS], records[SPECULATIVE]
    assert plain.runs == speculative.runs == [list(range(1, 11))]
    assert plain.counted == [1] * 10 and len(plain.timed) == 2 + 2 + 2 + 0
    assert speculative.counted == [3, 3, 3] and len(speculative.timed) == 2
    assert (len(plain.clean), len(speculative.clean)) == (2, 2)  # the later ones have waited
    assert speculative.tokens_per_second == pytest.approx(300)


def test_quartiles_are_those_of_the_speed():
    record = Record(counted=[2, 4], timed=[], clean=[0.1, 0.2, 0.3, 0.4, 0.5])
    assert record.tokens_per_second == pytest.approx(10)
    assert record.quartiles == pytest.approx((7.5, 15))
    assert Record([1], [], [0.1]).quartiles is None
    assert Record([1], [0.1], []).tokens_per_second is None


def row(**changes):
    plain = Record([1], [0.1, 0.1, 0.3], [0.1, 0.1], [[5, 6, 7]])
    slow = Record([1], [0.2, 0.2], [0.2, 0.2], [[5, 6, 7], [5, 9, 7]])
    return Row(**{"weights": "float32", "models": "large / small", "gamma": 0, "ours": plain,
                  "theirs": slow, "limit_seconds": 0.08, "our_plain": plain, "their_plain": slow,
                  "expected": [5, 6, 7]} | changes)


def test_the_table():
    columns = [cell.strip() for cell in header("x").splitlines()[0].split("|")[1:-1]]
    assert columns.count("clean rounds") == 2 and "ours over x" in columns
    cells = [cell.strip() for cell in line(row()).split("|")[1:-1]]
    assert dict(zip(columns, cells, strict=True))["ours over x"] == "2.00"
    assert cells[2:6] == ["plain", "10.00 (10.00–10.00)", "80%", "2/3"]
    assert cells[-3:] == ["", "", "theirs DIFFERENT from token 2 on"]
    fast = Record([3, 3], [0.2], [0.2], [[5, 6, 7]])
    cells = [cell.strip() for cell in line(row(gamma=4, ours=fast, theirs=fast)).split("|")[1:-1]]
    assert cells[2:6] == ["speculative, γ = 4", "15.00", "40%", "1/1"]
    assert cells[-4:] == ["1.00", "1.50", "3.00", "equal"]
    nothing = Record([1], [0.1], [], [[5, 6, 7]])
    cells = [cell.strip() for cell in line(row(theirs=nothing)).split("|")[1:-1]]
    assert cells[6:10] == ["n/a", "n/a", "0/1", "n/a"]


def test_a_limit_that_was_beaten_is_said_to_be_wrong():
    assert impossible(row()) is None
    said = impossible(row(limit_seconds=0.11))
    assert "WRONG" in said and "100.0 ms" in said and "110.0 ms" in said


def test_every_reader_reads_the_whole_block_and_the_fastest_reading_counts(monkeypatch):
    memory = bandwidth.Bandwidth(3 * 2**20, "cpu")
    assert memory.block.nbytes == 3 * 2**20
    for name, reader in memory.readers.items():
        assert reader().sum().item() == memory.block.numel(), name
    monkeypatch.setattr(bandwidth, "READING_SECONDS", 0.0)
    memory.read()
    assert 1e6 < memory.limit < 1e13
    memory.readings = [(2e9, "sum"), (5e9, "dot product"), (3e9, "sum")]
    assert memory.limit == 5e9
    assert str(memory).startswith("5.0 GB/s (by dot product; 3 readings around the runs, 2.0 to")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_checkpoint(folder, "tiny")
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gguf_file_holds_the_weights(tiny, tmp_path, dtype):
    write_gguf(tiny, tmp_path / "x.gguf", dtype)
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    model = load_model(tiny)
    assert len(found) == len(model.state_dict())
    for name, weight in (("token_embd.weight", model.wte.weight),
                         ("position_embd.weight", model.wpe.weight),
                         ("blk.1.attn_qkv.weight", model.h[1].attn.c_attn.weight),
                         ("blk.0.ffn_down.weight", model.h[0].mlp.c_proj.weight),
                         ("blk.0.ffn_down.bias", model.h[0].mlp.c_proj.bias)):
        tensor = found[name]
        exact = dtype == "float32" or weight.ndim == 1 or name.startswith("position")
        values = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        expected = weight if exact else weight.bfloat16().float()
        assert torch.equal(values.view(weight.shape), expected), name
    assert nbytes(tiny, "bfloat16") == 2 * sum(weight.numel() for weight in model.parameters())


@pytest.mark.filterwarnings("ignore")
def test_generate_is_left_after_every_round(tiny, tmp_path):
    """Two runs of the same models at once, plain and assisted, a round of each in turns."""
    prompt = counting_prompt("tiny")
    options = SimpleNamespace(device="cpu", gammas=[3], tokens=9)
    with contestants((tiny, tiny), prompt, "float32", tmp_path, options) as (starts, pids):
        runs = {gamma: starts["transformers", gamma]() for gamma in (0, 3)}
        ids = {gamma: [] for gamma in runs}
        for _ in range(2):
            for gamma, run in runs.items():
                ids[gamma].append(next(run)[1])
    right = [prompt[-1] + 1 + i for i in range(8)]
    assert pids == [] and ids == {0: [right[:1], right[1:2]], 3: [right[:4], right[4:8]]}


@pytest.mark.parametrize("compiled", [False, True])
def test_our_contestants_do_not_disturb_each_other(monkeypatch, tiny, compiled):
    """All runs at once, also with graphs, which have a single cache for each model."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)  # two rounds
    prompt = counting_prompt("tiny")
    options = SimpleNamespace(device="cpu", layout="plain", compile=compiled, gammas=[2, 3],
                              tokens=12)
    starts = our_contestants((tiny, tiny), prompt, torch.float32, options)
    records = {contestant: Record() for contestant in starts}
    with torch.no_grad():
        take_turns(starts, records, 12, [])
    right = [prompt[-1] + 1 + i for i in range(12)]
    assert [record.runs for record in records.values()] == [[right]] * 3


DRIVER = """#!{python}
import sys
print(sys.argv[1:], file=open({log!r}, "w"))
for line in sys.stdin:
    command, gamma, *rest = line.split()
    if command == "start":
        next_id = int(rest[-1]) + 1
        print(.5, flush=True)
    elif next_id > 13:
        sys.exit(3)
    else:
        print(.25, next_id, flush=True)
        next_id += 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a script cannot be run like a program there")
def test_what_is_said_to_the_driver(tmp_path):
    program = tmp_path / "driver"
    program.write_text(DRIVER.format(python=sys.executable, log=str(tmp_path / "log")))
    program.chmod(0o755)
    with Driver(program, tmp_path / "t.gguf", None, "f32") as driver:
        run = driver.start(0, [10, 11], 5)()
        assert [next(run), next(run)] == [(0.25, [12]), (0.25, [13])]
        with pytest.raises(llama_cpp_build.PeerError, match="exit code 3"):
            next(run)
    threads = str(torch.get_num_threads())
    assert (tmp_path / "log").read_text().strip() == str([str(tmp_path / "t.gguf"), "-", threads,
                                                          "f32"])


@pytest.mark.parametrize("arguments, missing, reason", [
    ([], None, "--build"), (["--build"], "cmake", "no cmake here"),
    (["--build"], "c++", "no c++ here"), (["--build"], "ninja make", "no make here"),
])
def test_what_llama_cpp_lacks_is_said_in_one_line(capsys, monkeypatch, tmp_path, arguments, missing,
                                                  reason):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in (missing or "").split()
                        else os.devnull)
    assert llama_cpp(arguments) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and reason in err
    assert not list(tmp_path.iterdir())


def test_a_driver_of_another_source_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = llama_cpp_build.build_folder()
    program = folder / "build" / ("driver.exe" if sys.platform == "win32" else "driver")
    program.parent.mkdir(parents=True)
    copy = llama_cpp_build.copy_driver(folder) / "driver.cpp"
    program.write_text("")
    assert llama_cpp_build.find_driver() == program
    before = copy.stat().st_mtime_ns
    llama_cpp_build.copy_driver(folder)
    assert copy.stat().st_mtime_ns == before  # else it would be compiled again
    copy.write_text("older")
    with pytest.raises(llama_cpp_build.PeerError, match="--build"):
        llama_cpp_build.find_driver()
    llama_cpp_build.copy_driver(folder)
    os.utime(program, (1, 1))  # copied, but not compiled yet
    with pytest.raises(llama_cpp_build.PeerError, match="--build"):
        llama_cpp_build.find_driver()


def test_an_official_race_starts_from_the_same_ids_as_ever():
    assert counting_prompt("large") == list(range(1000, 1016))
    assert parse_pair("tales") == Pair("tales-large", "tales-small")
    assert parse_pair("small") == Pair("small") and str(Pair("small")) == "small alone"
