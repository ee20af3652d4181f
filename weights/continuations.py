"""Greedy continuations that other implementations gave: what `weights.check` compares with.

Those of official files are from the tests of Hugging Face's transformers; where a test has a text,
its ids were made anew from the text.
"""
from typing import NamedTuple


class Known(NamedTuple):
    """What follows some prompts, all in ids, in the number format it was computed in."""

    pairs: list[tuple[list[int], list[int]]]  # prompt, continuation
    dtype: str = "float32"


RELATIVITY = [128000, 61346, 2231, 11, 279, 10334, 315, 1375, 44515, 5415, 430, 220]
CONTINUATIONS = {
    # "The dog" …
    "gpt2": Known([
        ([464, 3290], [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13,
                       198, 198, 464, 3290])]),
    # computed with transformers' GPT2LMHeadModel from the files in weights/tales: "Once upon a
    # time" …
    "tales-large": Known([
        ([2508, 1357, 257, 580], [557, 366, 257, 801, 3779, 11, 290, 262, 1433, 335, 1635, 366, 284,
                                  412, 257, 3779, 11, 290, 262, 1433])]),
    "tales-small": Known([
        ([2508, 1357, 257, 580], [11, 290, 262, 2218, 366, 491, 2891, 348, 448, 586, 1715, 324, 336,
                                  366, 696, 715, 2891, 348, 553, 13])]),
    # "My favorite food is" …
    "EleutherAI/pythia-410m-deduped": Known([
        ([3220, 7583, 2739, 310], [247, 1175, 1711, 14, 34979, 13, 1711, 14, 34979, 13, 1711, 14,
                                   34979, 15, 187, 187, 42, 1353, 417, 2119])]),
    # "The dog" …; "Hello, my dog is a little" …; "Today, I am" …
    "EleutherAI/gpt-neo-1.3B": Known([
        ([464, 3290], [12, 3380, 4866, 286, 262, 1492, 11, 543, 318, 257, 4947, 286, 27126, 416,
                       262, 2739, 1772, 11]),
        ([15496, 11, 616, 3290, 318, 257, 1310],
         [1643, 286, 257, 479, 9760, 13, 1375, 318, 257, 845, 6029, 290, 14442]),
        ([8888, 11, 314, 716],
         [1016, 284, 1561, 546, 262, 1266, 835, 284, 651, 257, 1693, 287, 262])]),
    # "In the city of" …; "Paris is the capital of France and" …; "Computers and mobile phones have
    # taken" …; "Today is a beautiful day and I want" …
    "facebook/opt-125m": Known([
        ([2, 1121, 5, 343, 9], [188, 469, 6, 5, 343]),
        ([2, 32826, 16, 5, 812, 9, 1470, 8], [5, 812]),
        ([2, 14721, 43990, 8, 1830, 4247, 33, 551], [81, 5]),
        ([2, 5625, 16, 10, 2721, 183, 8, 38, 236], [7])]),
    # "Hello, my dog is a little" …; "Today, I" …; "In the city of" …
    "facebook/opt-350m": Known([
        ([2, 31414, 6, 127, 2335, 16, 10, 410],
         [828, 9, 10, 385, 9657, 4, 50118, 100, 437, 10, 410, 828]),
        ([2, 5625, 6, 38], [21, 11, 5, 1692, 9, 10, 1607, 19, 10, 1441, 59, 5]),
        ([2, 1121, 5, 343, 9], [764, 2659, 6, 5, 343])]),
    # "Simply put, the theory of relativity states that " …
    "meta-llama/Llama-3.2-1B": Known([
        (RELATIVITY, [16, 8, 279, 4732, 315, 3177, 374, 279, 1890, 369, 682, 37643, 11, 15851, 315,
                      872, 3813, 11, 323, 220, 17, 8, 279, 7016, 315, 22027, 527, 279, 1890, 369,
                      682, 37643])], "bfloat16"),
    "meta-llama/Llama-3.2-3B": Known([
        (RELATIVITY, [16, 13, 279, 4732, 315, 3177, 374, 6926, 11, 323, 220, 17, 13, 279, 4732, 315,
                      3177, 374, 279, 26731, 4732, 3284])], "bfloat16"),
}
