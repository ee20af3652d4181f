"""The hub's vocabularies: the ids are those of the library `tokenizers`, and others are refused."""
import json
import shutil
import unicodedata

import pytest
from tokenizers import Tokenizer as Reference
from tokenizers import models
from tokenizers.pre_tokenizers import ByteLevel

from tests.weights.make_vocabularies import FOLDER, LATIN
from tests.weights.test_tokenizer import TEXTS, random_texts
from weights import WeightsError, load_tokenizer, vocabulary_difference

KINDS = ("gpt2", "neox", "llama", "deepseek", "opt")
SIZES = {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_ctx": 64, "vocab_size": 512,
         "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8, "ffn_dim": 8,
         "intermediate_size": 8, "max_position_embeddings": 64}
FAMILY = {"gpt2": {"model_type": "gpt2"}, "opt": {"model_type": "opt"},
          "neox": {"model_type": "gpt_neox", "tie_word_embeddings": False, "rotary_pct": 1},
          "llama": {"model_type": "llama"}, "deepseek": {"model_type": "llama"}}
ENDS = {"gpt2": ("<|endoftext|>",), "neox": ("<|endoftext|>",), "opt": ("</s>",),
        "llama": ("<|end_of_text|>", "<|eot_id|>"), "deepseek": ("<｜end▁of▁sentence｜>",)}
BOS = {"opt": "</s>", "llama": "<|begin_of_text|>", "deepseek": "<｜begin▁of▁sentence｜>"}
ODD = [
    *(" " * n + "x" + "\n" * n for n in range(30)), "größer ÷ Áý ü" + LATIN,
    "e\u0301 \u1112\u1161\u11ab ﬁ Å", "12345 3½ a1b2 ٣٤ x²", "\r\n\r\n \t x\r",
    "日本、語。「はい」 a日本b 가나다 ࠀ߿", "isn't DON'T 'S ’s", "(a) [b] -- __init__ §¶† «x» —",
    "<s></s><|endoftext|><|end_of_text|><｜end▁of▁sentence｜>", "👩‍👩‍👧‍👦a\u200db \ufeff"]


def steps(kind):
    data = json.loads((FOLDER / kind / "tokenizer.json").read_text())
    return data["pre_tokenizer"]["pretokenizers"]


*_, DIGITS, BYTES = steps("deepseek")
DIGITS_FIRST = [DIGITS, *steps("deepseek")[:4], BYTES]
WITH_DIGITS = [steps("llama")[0], DIGITS, BYTES]


def reference(name):
    if name != "opt":
        return Reference.from_file(str(FOLDER / name / "tokenizer.json"))
    tokenizer = Reference(models.BPE.from_file(str(FOLDER / "opt/vocab.json"),
                                               str(FOLDER / "opt/merges.txt")))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return tokenizer


def write_folder(name, folder, **more):
    """A model's folder without weights."""
    shutil.copytree(FOLDER / name, folder)
    known = reference(name)
    ends = [known.token_to_id(token) for token in ENDS[name]]
    config = {**SIZES, **FAMILY[name], "eos_token_id": ends if len(ends) > 1 else ends[0],
              "bos_token_id": known.token_to_id(BOS.get(name, ENDS[name][0])), **more}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    folder = write_folder(request.param, tmp_path_factory.mktemp("vocabularies") / "model")
    return request.param, load_tokenizer(folder), reference(request.param)


def texts():
    """Only of characters that Python knows, or its form C may be another one than the library's."""
    return [text for text in [*TEXTS.values(), *ODD, *random_texts(1000)]
            if all(unicodedata.category(character) != "Cn" for character in text)]


def test_the_ids_are_those_of_the_library(kind):
    name, ours, theirs = kind
    for text in texts():
        want = theirs.encode(text, add_special_tokens=False).ids
        # The library always cuts out special tokens; ours only where it is asked to.
        special = name != "opt" and any(token in text for token in ours.special)
        assert ours.encode(text, special=special) == want, text


def test_a_text_comes_back(kind):
    name, ours, _ = kind
    for text in texts():
        back = unicodedata.normalize("NFC", text) if name == "neox" else text
        for special in (False, True):
            assert ours.decode(ours.encode(text, special)) == back


def test_a_prompt_begins_with_bos_where_the_family_has_it(kind):
    name, ours, theirs = kind
    first = [theirs.token_to_id(BOS[name])] if name in BOS else []
    assert ours.prompt("A story") == first + theirs.encode("A story", add_special_tokens=False).ids
    assert ours.prompt("") == (first or [ours.eot_token])
    if name in ("llama", "deepseek"):
        assert ours.prompt("A story") == theirs.encode("A story").ids


def test_special_tokens_are_text_unless_they_are_asked_for(kind):
    name, ours, theirs = kind
    end = ENDS[name][0]
    assert theirs.token_to_id(end) == ours.eot_token not in ours.encode(f"a{end}b")
    assert ours.encode(f"a{end}b", special=True).count(ours.eot_token) == 1
    assert ours.ends == tuple(map(theirs.token_to_id, ENDS[name]))


def test_every_id_has_its_text(kind):
    name, ours, theirs = kind
    assert ours.n_vocab == theirs.get_vocab_size(with_added_tokens=True)
    for id in range(ours.n_vocab):
        if id not in theirs.get_added_tokens_decoder() and name != "opt":
            whole = ours.decode([id])  # half a character is U+FFFD for both
            assert theirs.decode([id], skip_special_tokens=False) == whole
    for token, id in {**ours.added, **ours.special, **ours.unreachable}.items():
        assert ours.decode_single_token_bytes(id) == token.encode()


def test_rows_beyond_the_tokens_are_padding_and_too_few_are_refused(tmp_path, kind):
    name, ours, _ = kind
    padded = load_tokenizer(write_folder(name, tmp_path / "padded", vocab_size=1000))
    assert vocabulary_difference(ours, padded) is None
    folder = write_folder(name, tmp_path / "few", vocab_size=ours.n_vocab - 1)
    with pytest.raises(WeightsError, match=f"has {ours.n_vocab} tokens, but the embedding only"):
        load_tokenizer(folder)


def test_an_exchanged_file_is_read_again(tmp_path):
    folder = write_folder("neox", tmp_path / "model")
    before = load_tokenizer(folder)
    data = json.loads((folder / "tokenizer.json").read_text())
    data["added_tokens"].pop()
    (folder / "tokenizer.json").write_text(json.dumps(data))
    assert load_tokenizer(folder).n_vocab == before.n_vocab - 1


@pytest.mark.parametrize("where, value, words", [
    ("model.type", "Unigram", "model is 'Unigram', not 'BPE'"),
    ("model.byte_fallback", True, "SentencePiece"),
    ("model.dropout", 0.1, "dropout is 0.1"),
    ("normalizer", {"type": "Lowercase"}, "changes a text in a way not known here, 'Lowercase'"),
    ("pre_tokenizer", {"type": "Whitespace"}, "alphabet is not the bytes"),
    ("pre_tokenizer", None, "alphabet is not the bytes"),
    ("pre_tokenizer.add_prefix_space", True, "puts a space before it"),
    ("pre_tokenizer.use_regex", False, "cuts text into pieces in a way not known here"),
    ("post_processor", {"type": "BertProcessing"}, "changes ids in a way not known"),
    ("post_processor", {"type": "TemplateProcessing", "special_tokens": {},
                        "single": [{"Sequence": {}}, {"SpecialToken": {"id": "x"}}]},
     "puts tokens after a text"),
    ("post_processor", {"type": "TemplateProcessing",
                        "special_tokens": {"<|padding|>": {"ids": [1]}},
                        "single": [{"SpecialToken": {"id": "<|padding|>"}}, {"Sequence": {}}]},
     r"begins a text with \[1\], config.json with \[\]"),
    ("added_tokens.0.lstrip", True, "takes away what is around '<|endoftext|>'"),
    ("added_tokens.0.id", 900, "its id 0 stands for no text"),
    ("model.merges", [["zz", "zy"]], "no 'zzzy'"),
    ("model.merges", 3, "is no vocabulary"),
    ("model", [], "is no vocabulary"),
])
def test_what_is_not_known_is_refused(tmp_path, where, value, words, kind_of_file="neox"):
    folder = write_folder(kind_of_file, tmp_path / "model")
    data = json.loads((folder / "tokenizer.json").read_text())
    *steps, last = where.split(".")
    place = data
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    (folder / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(WeightsError, match=words.replace("|", r"\|")) as error:
        load_tokenizer(folder)
    assert "\n" not in str(error.value) and "tokenizer.json" in str(error.value)


@pytest.mark.parametrize("kind_of_file, where, value", [
    ("llama", "pre_tokenizer.pretokenizers.0.behavior", "Removed"),
    ("llama", "pre_tokenizer.pretokenizers.0.invert", True),
    ("llama", "pre_tokenizer.pretokenizers.1.use_regex", True),
    ("deepseek", "pre_tokenizer.pretokenizers.4.individual_digits", False),
    ("deepseek", "pre_tokenizer.pretokenizers.0.pattern", {"Regex": "x"}),
    ("deepseek", "pre_tokenizer.pretokenizers", DIGITS_FIRST),
    ("llama", "pre_tokenizer.pretokenizers", WITH_DIGITS)])
def test_another_cut_is_refused(tmp_path, kind_of_file, where, value):
    test_what_is_not_known_is_refused(tmp_path, where, value, "cuts text into pieces in a way",
                                      kind_of_file)


def test_a_piece_that_is_a_token_becomes_it_where_merges_are_ignored(tmp_path):
    folder = write_folder("llama", tmp_path / "model")
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    data["model"]["vocab"]["Ġqzqzq"] = len(data["model"]["vocab"]) + 3  # after the added ones
    path.write_text(json.dumps(data))
    ours, theirs = load_tokenizer(folder), Reference.from_file(str(path))
    for words in ("a qzqzq", "a qzqzqz qzqzq", "qzqzq"):
        assert ours.encode(words) == theirs.encode(words, add_special_tokens=False).ids
    data["model"]["vocab"]["qz"] = len(data["model"]["vocab"]) + 3
    path.write_text(json.dumps(data))
    with pytest.raises(WeightsError, match="its token 'qz' is no merge, but two others make it"):
        load_tokenizer(folder)


def test_a_gpt2_in_another_language_has_its_own_tokens(tmp_path):
    folder = write_folder("gpt2", tmp_path / "model", vocab_size=50257)
    assert load_tokenizer(folder).n_vocab < 1000
    (folder / "tokenizer.json").unlink()
    assert load_tokenizer(folder).n_vocab == 50257


@pytest.mark.parametrize("name", ["neox", "llama"])
def test_two_files_do_not_say_how_every_family_cuts(tmp_path, name):
    folder = write_folder("opt", tmp_path / "model")
    config = {**json.loads((folder / "config.json").read_text()), **FAMILY[name]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(WeightsError, match=r"its tokenizer\.json is needed"):
        load_tokenizer(folder)


@pytest.mark.parametrize("name, contents, words", [
    ("merges.txt", None, "no vocab.json with merges.txt"),
    ("vocab.json", None, "cannot read .*vocab.json: No such file"),
    ("vocab.json", b"[1]", "is no vocabulary"), ("merges.txt", b"\xff", "is no vocabulary"),
    ("merges.txt", b"#version\na b c d\n", "is no vocabulary")])
def test_damaged_files_are_refused(tmp_path, name, contents, words):
    folder = write_folder("opt", tmp_path / "model")
    (folder / name).unlink()
    if contents is not None:
        (folder / name).write_bytes(contents)
    with pytest.raises(WeightsError, match=words):
        load_tokenizer(folder)


def test_a_token_may_begin_with_the_sign_of_a_comment(tmp_path):
    """Only the first line of merges.txt is one."""
    folder = write_folder("opt", tmp_path / "model")
    vocab = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**vocab, "##": len(vocab)}))
    with (folder / "merges.txt").open("a") as file:
        file.write("# #\n")
    assert load_tokenizer(folder).encode("##") == [len(vocab)]
