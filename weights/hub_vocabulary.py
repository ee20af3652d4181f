"""Vocabularies as the hub's repositories have them: tokenizer.json, or vocab.json and merges.txt.

Those that are read are byte pair encodings over bytes, which is what tiktoken computes. tiktoken
merges the pair whose token has the lowest rank, so the order of the merges makes the ranks; the ids
are often the same numbers, but OPT's are not. What a family does around that is recognised, and
everything else refused: it would load well and give other ids. Nothing here imports torch.
"""
from collections.abc import Callable, Sequence
from pathlib import Path

import tiktoken

from weights.config import Ends
from weights.cuts import GPT2_PATTERN, pattern_of
from weights.diagnose import fetch_again
from weights.errors import WeightsError
from weights.files import parse_json, reading
from weights.vocabulary import Tokenizer

WRONG = (KeyError, IndexError, TypeError, AttributeError, ValueError)  # what odd JSON ends in
AROUND = ("lstrip", "rstrip", "single_word")


def read_tokenizer_json(path: Path, ends: Ends) -> Tokenizer:
    """Read the vocabulary in a tokenizer.json; `ends` are config.json's.

    Raises WeightsError if it is of a kind that is not known here.
    """
    def read() -> Tokenizer:
        data = parse_json(path.read_bytes())
        model, added = data["model"], data.get("added_tokens") or []
        refuse_other_kinds(data, model)
        first = begins_with(data.get("post_processor") or {})
        if first and first != list(ends.first):
            raise ValueError(f"it begins a text with {first}, config.json with {list(ends.first)}")
        named: dict[bool, dict[str, int]] = {True: {}, False: {}}
        for token in added:
            named[bool(token["special"])][token["content"]] = token["id"]
        merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        whole = whole_pieces(model, merges, named) if model.get("ignore_merges") else []
        return make_tokenizer(path.parent.name, model["vocab"], merges, ends,
                              pattern_of(data.get("pre_tokenizer")), named[False], named[True],
                              is_nfc(data.get("normalizer")), whole)

    return or_refuse(read, path)


def read_vocab_and_merges(vocab: Path, ends: Ends) -> Tokenizer:
    """Read the vocabulary in vocab.json and merges.txt, cut as GPT-2 cuts text.

    Raises WeightsError if they are no such files.
    """
    def read() -> Tokenizer:
        merges = vocab.with_name("merges.txt")
        with reading(merges):
            lines = merges.read_text(encoding="utf-8").split("\n")
        # Only the first line is a comment: "#" may begin a token.
        pairs = [line.split(" ") for line in lines[lines[0].startswith("#version"):] if line]
        ids = parse_json(vocab.read_bytes())
        around = {token: id for token, id in ids.items() if id in (*ends.first, *ends.last)}
        return make_tokenizer(vocab.parent.name, ids, pairs, ends, GPT2_PATTERN, {}, around, False)

    return or_refuse(read, vocab)


def or_refuse(read: Callable[[], Tokenizer], path: Path) -> Tokenizer:
    """Return what is read. Raises WeightsError, with the reason, if it cannot be."""
    with reading(path):
        try:
            return read()
        except WRONG as error:
            why = f"no {error}" if isinstance(error, KeyError) else error
            raise WeightsError(f"{path} is no vocabulary that can be read here: {why}; if it is "
                               f"damaged, {fetch_again(path)}") from error


def make_tokenizer(name: str, vocab: dict[str, int], merges: list[list[str]], ends: Ends,
                   pattern: str, added: dict[str, int], special: dict[str, int],
                   nfc: bool, whole: Sequence[str] = ()) -> Tokenizer:
    """Build a tokenizer from tokens and merges whose characters stand for bytes, as in `BYTES`.

    whole: tokens that no merge makes, for pieces of text that are just this token.
    """
    tokens = [*(token for token in BYTES if token in vocab), *map("".join, merges), *whole]
    tokens = list(dict.fromkeys(tokens))  # a token that several pairs make has the first one's rank
    ranks = {bytes(BYTES[character] for character in token): rank
             for rank, token in enumerate(tokens)}
    known = {*tokens, *added, *special}
    others = {token: id for token, id in vocab.items() if token not in known}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return Tokenizer(encoding, [vocab[token] for token in tokens], ends.last, ends.first, added,
                     special, others, nfc)


def whole_pieces(model: dict, merges: list[list[str]],
                 named: dict[bool, dict[str, int]]) -> list[str]:
    """Return the tokens that no merge makes; with ignore_merges a piece that is one becomes it.

    Raises ValueError for one that tiktoken would also put together from two others: it knows ranks
    only, not which pairs are merged.
    """
    made = {*BYTES, *map("".join, merges), *named[False], *named[True]}
    whole = [token for token in sorted(model["vocab"], key=model["vocab"].get) if token not in made]
    for token in whole:
        if any({token[:i], token[i:]} <= model["vocab"].keys() for i in range(1, len(token))):
            raise ValueError(f"its token {token!r} is no merge, but two others make it")
    return whole


def refuse_other_kinds(data: dict, model: dict) -> None:
    """Raise ValueError unless this is byte pair encoding, with nothing around it but what is known.
    """
    if model.get("type", "BPE") != "BPE":
        raise ValueError(f"its model is {model['type']!r}, not 'BPE'")
    if model.get("byte_fallback"):
        raise ValueError("its tokens are characters (SentencePiece), not bytes")
    for key in ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        no_use = key == "unk_token" and model["vocab"].keys() >= BYTES.keys()  # nothing is unknown
        if model.get(key) and not no_use:
            raise ValueError(f"its {key} is {model[key]!r}")
    for token in data.get("added_tokens") or []:
        if any(token.get(key) for key in AROUND):
            raise ValueError(f"it takes away what is around {token['content']!r}")


def is_nfc(normalizer: dict | None) -> bool:
    """Return whether text is brought into Unicode's form C; raise ValueError for other changes."""
    if not normalizer or (normalizer["type"] == "Sequence" and not normalizer["normalizers"]):
        return False
    if normalizer["type"] != "NFC":
        raise ValueError(f"it changes a text in a way not known here, {normalizer['type']!r}")
    return True


def begins_with(post: dict) -> list[int]:
    """Return the ids that a post_processor puts before a text.

    Raises ValueError if it puts any after it.
    """
    for step in post.get("processors", [post]):
        if step.get("type") == "TemplateProcessing":
            names = [part["SpecialToken"]["id"] if "SpecialToken" in part else None
                     for part in step["single"]]
            if names[-1] is not None:
                raise ValueError("it puts tokens after a text")
            return [id for name in names[:-1] for id in step["special_tokens"][name]["ids"]]
        if step.get("type") not in (None, "ByteLevel"):  # that one moves offsets, not ids
            raise ValueError(f"it changes ids in a way not known here, {step['type']!r}")
    return []


def _alphabet() -> dict[str, int]:
    """Return the byte that each character stands for in these files.

    A printable character is itself; the others follow from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return ({chr(byte): byte for byte in printable}
            | {chr(256 + n): byte for n, byte in enumerate(others)})


BYTES = _alphabet()
