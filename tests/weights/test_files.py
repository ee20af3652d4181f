"""What a user names is read once, and refused in one line; what is written follows the umask."""
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from decoding.bench.counting_gpt2 import write_checkpoint
from weights import WeightsError, load_model, load_tokenizer
from weights.check import main as check
from weights.console import run_program
from weights.files import MIB, check_path, parse_json, read_bytes, reading, to_text
from weights.memory import check_memory, total_memory
from weights.output import replacing
from weights.registry import BUNDLED
from weights.terminal import one_line
from weights.train import main as train
from weights.training.corpus import prepare, read_documents

NESTED = "[" * 100_000


def test_a_file_is_read_to_its_end_but_not_beyond_what_is_of_use(tmp_path):
    (tmp_path / "f").write_bytes(contents := os.urandom(3 * MIB + 5))
    assert read_bytes(tmp_path / "f", "f", len(contents), "") == contents
    assert read_bytes(str(tmp_path / "f"), "f", 10**12, "") == contents
    words = r"^t has more than 3,145,732 bytes, too many; shorten it$"
    with pytest.raises(WeightsError, match=words):
        read_bytes(tmp_path / "f", "t", len(contents) - 1, "too many")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_file_without_an_end():
    with pytest.raises(WeightsError, match="zeros has more than 5 bytes"):
        read_bytes("/dev/zero", "zeros", 5, "")


def test_stdin_is_a_file_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfcaf\xc3\xa9")))
    assert to_text(read_bytes("-", "stdin", 99, ""), "stdin") == "café"


def test_what_is_wrong_with_a_file_is_said():
    with pytest.raises(WeightsError, match=r"^the text is not UTF-8 .*; convert it to UTF-8$"):
        to_text(b"caf\xe9", "the text")
    with pytest.raises(WeightsError, match=r"^cannot read the book: Permission denied$"), \
            reading("the book"):
        raise PermissionError(13, "Permission denied", "book")
    with pytest.raises(WeightsError, match="not UTF-8; rename it"):
        check_path(Path("a") / "\udcff")
    check_path(Path("日本"))


@pytest.mark.parametrize("text", [NESTED, NESTED.encode(), '{"a":' * 100_000])
def test_json_nested_too_deeply_is_no_json(text):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(text)
    assert parse_json(b'\xef\xbb\xbf{"a": [1]}') == {"a": [1]}


@pytest.fixture
def folder(tmp_path):
    """A good model folder, for the test to spoil."""
    write_checkpoint(tmp_path / "m", "tiny")
    return tmp_path / "m"


def test_a_config_behind_a_byte_order_mark(folder):
    config = folder / "config.json"
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert load_model(folder).config.n_vocab == 300


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_nested_json_in_a_model(folder, file):
    header = len(NESTED).to_bytes(8, "little") if file == "model.safetensors" else b""
    (folder / file).write_bytes(header + NESTED.encode())
    with pytest.raises(WeightsError, match=f"{file} is not .*; fetch it again"):
        load_model(folder)


@pytest.mark.parametrize("name", ["x" * 300, "./" + "x" * 300])
def test_a_name_that_is_too_long(name):
    with pytest.raises(WeightsError, match=r"cannot read .*: File name too long|unknown model"):
        load_tokenizer(name)


LOCKED = [("config.json", 0o000, "m/config.json"), ("model.safetensors", 0o000, "m/model.safet"),
          ("tales.tiktoken", 0o000, "m/tales.tiktoken"), (".", 0o000, "m"), (".", 0o711, "m")]


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="anybody may read anything there")
@pytest.mark.parametrize("locked, mode, named", LOCKED)
def test_what_may_not_be_read_is_named(locked, mode, named):
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        folder = shutil.copytree(BUNDLED["tales-small"], Path(top) / "m")
        me = os.geteuid()
        try:
            (folder / locked).chmod(mode)
            if me == 0:  # the superuser may read anything
                os.seteuid(65534)
            else:
                pytest.skip("a folder of one's own") if mode == 0o711 else None
            with pytest.raises(WeightsError) as error:
                load_tokenizer(folder)
                load_model(folder)
        finally:
            os.seteuid(me)
            (folder / locked).chmod(0o755)
    assert str(error.value).startswith(f"cannot read {top}/{named}")
    assert str(error.value).endswith(": Permission denied")


def test_a_path_that_safetensors_cannot_open(tmp_path):
    if os.fsencode("\udcff") != b"\xff" or sys.platform in ("win32", "darwin"):
        pytest.skip("every path is Unicode here")
    write_checkpoint(tmp_path / "ok", "tiny")
    (tmp_path / "ok").rename(tmp_path / "\udcff")
    with pytest.raises(WeightsError, match="is not UTF-8; rename it"):
        load_model(tmp_path / "\udcff")


@pytest.mark.parametrize("name", ["a\nb", "a\r\x0b\u2028b", "a\x1b[2Jb", "\udcff"])
def test_a_refusal_is_one_line_whatever_it_names(name, capsys):
    def refuse():
        raise ValueError(f"cannot read {name}")

    assert run_program("p", refuse) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.isascii() and err[:-1].isprintable()
    assert one_line("日本 é") == "日本 é"


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such modes there")
@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_what_is_written_follows_the_umask(tmp_path, umask, mode):
    usual = os.umask(umask)
    try:
        write_checkpoint(tmp_path, "tiny")
    finally:
        os.umask(usual)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_a_file_that_failed_gives_its_room_back_though_it_is_still_open(tmp_path):
    """On a full disk the best weights need the room that a failed checkpoint has taken."""
    with pytest.raises(RuntimeError), replacing(tmp_path / "f") as unfinished:
        held = unfinished.open("wb")
        held.write(b"x" * 9999)
        held.flush()
        raise RuntimeError
    assert os.fstat(held.fileno()).st_size == 0 and not list(tmp_path.iterdir())
    held.close()


def test_more_memory_than_there_is(monkeypatch):
    check_memory(10**6, "this")
    with pytest.raises(ValueError, match=r"^this needs at least 2e\+09 GB of memory, and there "):
        check_memory(2e18, "this")
    assert 10**8 < total_memory("cpu") < 10**15
    monkeypatch.delattr(os, "sysconf", raising=False)
    check_memory(2e18, "this")  # Windows does not tell


def make_pair(folder, context):
    """Train for a step, by the command."""
    (folder / "text").write_text("Once upon a time there was a king. " * 9)
    sizes = f"--target 1,1,8 --draft 1,1,8 --context {context} --steps 1"
    assert train([str(folder / "text"), "--out", str(folder / "pair"), *sizes.split()]) == 0
    return str(folder / "pair" / "large")


@pytest.mark.parametrize("context", [2, 8])
def test_a_model_that_reads_less_than_the_sentence_is_checked_all_the_same(context, tmp_path,
                                                                          capsys):
    name = make_pair(tmp_path, context)
    capsys.readouterr()
    assert check([name]) == 1
    out, err = capsys.readouterr()
    assert "FAIL: no continuation" in out and "nats per token" in out and err == ""


def test_a_model_of_one_token_cannot_be_checked(tmp_path, capsys):
    name = make_pair(tmp_path, 1)
    capsys.readouterr()
    assert check([name]) == 2
    assert "reads one token at a time" in capsys.readouterr().err


@pytest.mark.parametrize("at", [100, 8805, -3])
def test_a_damaged_vocabulary_of_ours_is_refused_wherever_it_lies(tmp_path, at):
    folder = shutil.copytree(BUNDLED["tales-large"], tmp_path / "m")
    file = folder / "tales.tiktoken"
    contents = bytearray(file.read_bytes())
    contents[at] ^= 2
    file.write_bytes(contents)
    for load in (load_tokenizer, load_model):
        with pytest.raises(WeightsError, match=r"tales.tiktoken has been changed or damaged"):
            load(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_text_from_a_pipe_is_read_once(tmp_path):
    text = "Once upon a time there was a king. " * 9
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_text, args=[text], daemon=True)
    writer.start()
    corpus = prepare(tmp_path / "pipe", None, 257, 8)
    assert corpus.digests == [hashlib.sha256(text.encode()).hexdigest()]
    assert corpus.n_characters == len(text.strip())


def test_every_kind_of_line_end_is_one(tmp_path):
    (tmp_path / "text").write_bytes(b"a\r\nb\rc\nd<|endoftext|>\r\n e \r")
    assert read_documents(tmp_path / "text")[0] == ["a\nb\nc\nd", "e"]


@pytest.mark.parametrize("cache, links", [("models--o--n", True), ("models--o--n", False),
                                          ("elsewhere", True)])
def test_a_cut_file_in_the_hubs_cache_says_what_to_delete(cache, links, tmp_path, folder):
    blob = tmp_path / cache / "blobs" / "1234"
    snapshot = tmp_path / cache / "snapshots" / "main"
    for path in (blob.parent, snapshot):
        path.mkdir(parents=True)
    os.truncate(folder / "model.safetensors", 1000)
    shutil.copy(folder / "config.json", snapshot)
    if links:
        (folder / "model.safetensors").rename(blob)
        (snapshot / "model.safetensors").symlink_to(blob)
    else:  # as where the system makes none
        blob = (folder / "model.safetensors").rename(snapshot / "model.safetensors")
    with pytest.raises(WeightsError) as error:
        load_model(snapshot)
    assert f"delete {blob} and run again" in str(error.value)


def test_a_cut_file_of_ones_own_is_not_to_be_deleted(folder):
    os.truncate(folder / "model.safetensors", 1000)
    with pytest.raises(WeightsError, match=r"is cut short, .*; fetch it again$"):
        load_model(folder)
