"""Writes the small vocabularies beside it: `python -m tests.weights.make_vocabularies`.

One of each kind that is read, as the library `tokenizers` writes it, trained on the prompts of the
benchmark. What surrounds the merges is that of the family's own tokenizer.json.
"""
import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.pre_tokenizers import ByteLevel, Digits, Split
from tokenizers.processors import ByteLevel as Offsets
from tokenizers.processors import Sequence, TemplateProcessing

from decoding.bench import prompts
from weights.cuts import DEEPSEEK_STAGES

FOLDER = Path(__file__).parent / "vocabularies"
TEXTS = [*Path(prompts.__file__).with_name("prompts.txt").read_text().split("\n\n"),
         "def f(x):\n    return x**2  # ok\n" * 3, "größer, schöner, e\u0301té",
         "从前有一位国王。你好世界"]
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LATIN = "õ÷ÁýÀÿøúþüùöû"  # DeepSeek-coder's tokens 32000 to 32012


def trained(pre_tokenizer, special=(), ignore_merges=False):
    """A byte pair encoding of 200 merges; the special tokens have the first ids."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=456 + len(special), special_tokens=list(special), show_progress=False,
        initial_alphabet=ByteLevel.alphabet()))
    return tokenizer


def named(*names):
    return [AddedToken(name, special=True, normalized=False) for name in names]


def begin_with(tokenizer, bos):
    tokenizer.post_processor = Sequence([Offsets(trim_offsets=False), TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])])


def neox():
    tokenizer = trained(ByteLevel(add_prefix_space=False), ["<|endoftext|>", "<|padding|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    return tokenizer


def llama():
    cut = Split(Regex(LLAMA), "isolated")
    tokenizer = trained(pre_tokenizers.Sequence([cut, ByteLevel(add_prefix_space=False,
                                                                use_regex=False)]),
                        ignore_merges=True)
    tokenizer.add_special_tokens(named("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    begin_with(tokenizer, "<|begin_of_text|>")
    return tokenizer


def deepseek():
    cuts = [Split(Regex(stage), "isolated") for stage in DEEPSEEK_STAGES]
    tokenizer = trained(pre_tokenizers.Sequence([
        *cuts, Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=False)]))
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.add_tokens([AddedToken(letter, normalized=True) for letter in LATIN])
    tokenizer.add_special_tokens(named("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"))
    begin_with(tokenizer, "<｜begin▁of▁sentence｜>")
    return tokenizer


def opt():
    """GPT-2's two files with other ids: the tokens backwards, after those of the family."""
    model = json.loads(trained(ByteLevel(add_prefix_space=False)).to_str())["model"]
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    backwards = sorted(model["vocab"], key=lambda token: -model["vocab"][token])
    vocab = {token: id for id, token in enumerate([*names, *backwards, "madeupword0000"])}
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return vocab, ["#version: 0.2", *pairs]


def write(name, tokenizer):
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    (FOLDER / name / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")


def main():
    write("gpt2", trained(ByteLevel(add_prefix_space=False), ["<|endoftext|>"]))
    for make in (neox, llama, deepseek):
        write(make.__name__, make())
    (FOLDER / "opt").mkdir(exist_ok=True)
    vocab, lines = opt()
    (FOLDER / "opt/vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (FOLDER / "opt/merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
