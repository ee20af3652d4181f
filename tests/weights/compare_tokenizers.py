"""Compares a model's tokenizer with the library `tokenizers`, on texts of yours.

    python -m tests.weights.compare_tokenizers FOLDER TEXT...

FOLDER holds config.json and tokenizer.json, as the hub has them. Each TEXT is a UTF-8 file. Prints
the first text whose ids differ, and exits with 1. Our tests do the same with small vocabularies.
"""
import sys
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer as Reference

from tests.weights.test_tokenizer import TEXTS, random_texts
from tests.weights.test_vocabularies import ODD
from weights import load_tokenizer


def main(folder, *files):
    ours, theirs = load_tokenizer(folder), Reference.from_file(str(Path(folder, "tokenizer.json")))
    texts = [*TEXTS.values(), *ODD, *random_texts(20000),
             *(Path(file).read_text(encoding="utf-8") for file in files)]
    tokens, newer = 0, 0
    for text in texts:
        newer += any(unicodedata.category(character) == "Cn" for character in text)
        want = theirs.encode(text, add_special_tokens=False).ids
        found = ours.encode(text, special=True)
        if found != want:
            print(f"different ids for {text[:200]!r}:\n{found[:50]}\n{want[:50]}")
            return 1
        tokens += len(want)
    print(f"{len(texts)} texts, {tokens} tokens: the same ids ({newer} have characters that are "
          "newer than this Python)")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
