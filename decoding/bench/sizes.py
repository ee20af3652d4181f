"""The sizes of a counting GPT-2, and what its options may be. Imports no torch."""
from weights.console import real

SIZES = {  # n_layer, n_head, n_embd, n_vocab, n_ctx
    "tiny": (2, 2, 64, 300, 64),
    "small": (12, 12, 768, 50257, 1024),
    "medium": (24, 16, 1024, 50257, 1024),
    "large": (36, 20, 1280, 50257, 1024),
    "xl": (48, 25, 1600, 50257, 1024),
}
share = real(0, 1, "from 0 to 1", True)  # an argparse type: of ids that are spoilt
