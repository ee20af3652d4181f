r"""How families cut text into pieces before any merging, as regular expressions for tiktoken.

A piece is merged by itself, so another cut means other ids. tokenizer.json describes the cut as a
pre_tokenizer; those that are known here have an expression, and all others are refused.
"""
# Contractions, words, numbers, other signs, spaces. GPT-2's pattern in the form tiktoken gives it:
# "++", which never gives back what it took, and "\s++$" change no piece and only save time.
GPT2_PATTERN = (r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++"""
                r"""|\s++$|\s+(?!\S)|\s""")
# DeepSeek-coder cuts in stages, each within the pieces of the one before, and then every digit by
# itself. An alternation of the five would be something else: a stage may cut what an earlier one
# left whole, as the fourth does with a word that is partly in its range of characters, R.
DEEPSEEK_STAGES = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
R = r"\x{0800}-\x{9fa5}\x{ac00}-\x{d7ff}"
WORDS, SIGNS = (rf"[\s&&[^{R}]]?[{kind}&&[^{R}]]+|[\s&&[^{R}]](?=[{kind}&&[{R}]])"
                rf"|[\s&&[{R}]]?[{kind}&&[{R}]]+|[\s&&[{R}]](?=[{kind}&&[^{R}]])"
                for kind in (r"\p{L}", r"\p{P}"))
DEEPSEEK_PATTERN = (rf"[\r\n]|{WORDS}|{SIGNS}|\p{{N}}"
                    rf"|(?:(?!\s[\p{{L}}\p{{P}}])[[{R}]&&[^\p{{L}}\p{{P}}\p{{N}}]])+"
                    rf"|(?:(?!\s[\p{{L}}\p{{P}}])[^{R}\p{{L}}\p{{P}}\p{{N}}\r\n])+")


def pattern_of(pre_tokenizer: dict | None) -> str:
    """Return the expression that cuts text as this pre_tokenizer does.

    Raises ValueError for one that is not known here.
    """
    steps = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    *cuts, last = steps
    if not last or last["type"] != "ByteLevel" or last.get("add_prefix_space"):
        raise ValueError("its alphabet is not the bytes of a text, or it puts a space before it")
    own_cut = last.get("use_regex", True)
    if not cuts and own_cut:
        return GPT2_PATTERN
    regexes = [cut["pattern"]["Regex"] for cut in cuts
               if cut["type"] == "Split" and cut["behavior"] == "Isolated" and not cut["invert"]]
    digits = [cut for cut in cuts if cut["type"] == "Digits" and cut["individual_digits"]]
    if not own_cut and len(regexes) + len(digits) == len(cuts):
        if len(regexes) == 1 and not digits:
            return regexes[0]
        if regexes == DEEPSEEK_STAGES and cuts[4:] == digits and len(digits) == 1:
            return DEEPSEEK_PATTERN
    raise ValueError("it cuts text into pieces in a way not known here")
