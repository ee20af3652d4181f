"""GPT-2's own ids on any text, the small vocabulary, and vocabularies that do not fit."""
import base64
import hashlib
import json
import random
import shutil
import subprocess
import sys

import pytest
import tiktoken
from tiktoken_ext.openai_public import r50k_pat_str

from weights import WeightsError, load_tokenizer, tokenizer, vocabulary_difference
from weights.registry import BUNDLED

TEXTS = {"plain": "Hello world",
         "contractions": "I'm sure they'll say it's Anna's, we've 'seen 'tis DON'T",
         "numbers": "3.14, 1234567 ½ ² Ⅷ ๓",
         "spaces": "  two  three   \n\n\t tabs \r\n\u00a0\u3000 end   ", "only spaces": " " * 50,
         "emoji": "👩‍👩‍👧‍👦 🇩🇪 ☕️ 🤷🏽‍♀️", "CJK": "从前有一位国王。むかしむかし、옛날 옛적에",
         "marks": "e\u0301 नमस्ते สวัสดี \u200f\u202e עברית",
         "code": "def f(x):\n    return x**2  # ok\n", "control": "\x00\x01\x7f\u2028\ufeff",
         "end of text": "a<|endoftext|>b <|endoftext|>", "empty": ""}


@pytest.fixture(scope="module", params=["gpt2", "tales-large"])
def encoding(request):
    return load_tokenizer(request.param)


def random_texts(count):
    """Texts of characters from all over Unicode, runs of spaces among them."""
    dice = random.Random(0)
    alphabet = [chr(c) for c in range(0x3000)]  # below the surrogates
    alphabet += list(" \n\t'sdmtlvre0123") * 300 + list("🙂𝔘中あ한")
    return ["".join(dice.choices(alphabet, k=dice.randrange(60))) for _ in range(count)]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_comes_back(encoding, text):
    assert encoding.decode(encoding.encode(text)) == text
    assert encoding.decode(encoding.encode(text, special=True)) == text


def test_random_texts_come_back(encoding):
    for text in random_texts(300):
        assert encoding.decode(encoding.encode(text)) == text


def test_every_byte_is_a_token(encoding):
    for byte in map(bytes, zip(range(256))):
        assert byte in encoding.token_byte_values()


def test_end_of_text_is_ordinary_unless_asked_for(encoding):
    end = encoding.n_vocab - 1
    assert encoding.eot_token == end == {"gpt2": 50256, "tales": 4095}[encoding.name]
    assert end not in encoding.encode("a<|endoftext|>")
    assert encoding.encode("a<|endoftext|>", special=True)[-1] == end


def test_known_ids_of_gpt2():
    # "Hello world" is in tiktoken's README; "The dog ..." comes from the tests of transformers
    gpt2 = load_tokenizer("gpt2")
    assert gpt2.n_vocab == 50257
    assert gpt2.encode("Hello world") == [15496, 995]
    text = "The dog was found in a field near the intersection of West and West Streets.\n\nThe dog"
    assert gpt2.encode(text) == [464, 3290, 373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688,
                                 290, 2688, 27262, 13, 198, 198, 464, 3290]


def test_the_file_is_the_one_openai_publishes():
    """Its hash is the one tiktoken expects of r50k_base.tiktoken; its pattern is tiktoken's."""
    data = tokenizer.GPT2_FILE.read_bytes()
    wanted = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
    assert hashlib.sha256(data).hexdigest() == wanted
    assert len(data) < 1_000_000
    ranks = {base64.b64decode(token): int(rank)
             for token, rank in map(bytes.split, data.splitlines())}
    official = tiktoken.Encoding("official", pat_str=r50k_pat_str, mergeable_ranks=ranks,
                                 special_tokens={"<|endoftext|>": 50256})
    gpt2 = load_tokenizer("gpt2-xl")
    for text in [*TEXTS.values(), *random_texts(500)]:
        assert gpt2.encode(text) == official.encode_ordinary(text)


def test_a_changed_gpt2_vocabulary_is_refused(tmp_path):
    """In a copy of the project, in a process of its own."""
    weights = tokenizer.GPT2_FILE.parent
    copy = shutil.copytree(weights, tmp_path / weights.name,
                           ignore=lambda folder, names: {*BUNDLED, "__pycache__"} & set(names))
    file = copy / tokenizer.GPT2_FILE.relative_to(weights)
    file.write_bytes(file.read_bytes()[:-1] + b" \n")  # still readable, but not the same
    code = "import weights; print(weights.__file__); weights.load_tokenizer('gpt2')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.stdout == f"{copy / '__init__.py'}\n"
    assert "WeightsError" in done.stderr and "changed or damaged" in done.stderr


def test_the_pair_shares_one_vocabulary():
    large, small = (folder / "tales.tiktoken" for folder in BUNDLED.values())
    assert large.read_bytes() == small.read_bytes()
    gpt2, tales = load_tokenizer("gpt2"), load_tokenizer("tales-small")
    ids = list(map(gpt2.token_byte_values().index, tales.token_byte_values()[:4095]))
    assert ids == sorted(ids)  # GPT-2's tokens, in GPT-2's order


def write_folder(folder, n_vocab, *vocabularies):
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": n_vocab,
              "n_positions": 8}
    (folder / "config.json").write_text(json.dumps(config))
    for i, tokens in enumerate(vocabularies):
        lines = [b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
        (folder / f"v{i}.tiktoken").write_bytes(b"".join(lines))
    return str(folder)


BYTES = [bytes([b]) for b in range(256)]


def test_a_folder_has_its_own_vocabulary_else_gpt2s(tmp_path):
    write_folder(tmp_path, 50257)
    assert vocabulary_difference(load_tokenizer(tmp_path), load_tokenizer("gpt2")) is None
    write_folder(tmp_path, 258, [*BYTES, b"he"])
    own = load_tokenizer(str(tmp_path))
    assert own.encode("hehe") == [256, 256]
    assert own.eot_token == 257


@pytest.mark.parametrize("n_vocab, vocabularies, words", [
    (258, [], r"258 tokens and no vocabulary"),
    (257, [BYTES, BYTES], "2 vocabularies, v0.tiktoken and v1.tiktoken; keep one"),
    (256, [BYTES], "257 tokens with <|endoftext|>, but config.json says 256"),
    (257, [[*BYTES[1:], b"he"]], "have all 256 bytes"),
    (259, [[*BYTES, b"he", b"he"]], "number its tokens 0, 1, 2"),
])
def test_a_vocabulary_that_does_not_fit(tmp_path, n_vocab, vocabularies, words):
    with pytest.raises(WeightsError, match=words.replace("|", r"\|")) as error:
        load_tokenizer(write_folder(tmp_path, n_vocab, *vocabularies))
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"aGU= x\n", b"aGU=\n", b"aG!U= 0\n"])
def test_a_vocabulary_file_that_is_none(tmp_path, content):
    write_folder(tmp_path, 258)
    (tmp_path / "v.tiktoken").write_bytes(content)
    with pytest.raises(WeightsError, match=r"v\.tiktoken is not a vocabulary in tiktoken's format"):
        load_tokenizer(tmp_path)


def test_the_first_difference_is_named(tmp_path):
    gpt2, tales = load_tokenizer("gpt2"), load_tokenizer("tales-large")
    assert vocabulary_difference(gpt2, tales) == "50257 tokens against 4096"
    assert vocabulary_difference(gpt2, load_tokenizer("gpt2-large")) is None
    (tmp_path / "b").mkdir()
    a = load_tokenizer(write_folder(tmp_path, 259, [*BYTES, b"he", b"th"]))
    b = load_tokenizer(write_folder(tmp_path / "b", 259, [*BYTES, b"he", b"ht"]))
    assert vocabulary_difference(a, b) == "id 257 is b'th' in one and b'ht' in the other"
