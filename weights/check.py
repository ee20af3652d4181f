"""`python -m weights.check [NAME]`: do a model's weights load right?

Exit code 0: pass; 1: fail, or no download, or no memory; 2: no such model.

Loading alone checks every name and shape. It does not notice a matrix that was read the wrong way
round, so this program runs the model too. Where a greedy continuation is known from another
implementation, ours must equal it, id by id. Elsewhere the check is weaker, and says so: plain
English must not surprise the model much.
"""
import sys

from weights.console import OneLineParser, run_program

KNOWN_CONTINUATIONS = {  # {name: (prompt, what follows)}, in ids
    # from the tests of Hugging Face's transformers: "The dog" …
    "gpt2": ([464, 3290], [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262,
                           13, 198, 198, 464, 3290]),
    # computed with transformers' GPT2LMHeadModel from the files in weights/tales: "Once upon a
    # time" …
    "tales-large": ([2508, 1357, 257, 580], [557, 366, 257, 801, 3779, 11, 290, 262, 1433, 335,
                                             1635, 366, 284, 412, 257, 3779, 11, 290, 262, 1433]),
    "tales-small": ([2508, 1357, 257, 580], [11, 290, 262, 2218, 366, 491, 2891, 348, 448, 586,
                                             1715, 324, 336, 366, 696, 715, 2891, 348, 553, 13]),
}
PLAIN_ENGLISH = ("The old man lived alone in a small house by the sea. Every morning he walked "
                 "down to the water, looked at the boats, and went home again to make his "
                 "breakfast.")
# A chosen limit, not a published figure. tales-small, the weakest model here, is at 3.0; with only
# attn.c_proj read the wrong way round it is at 5.9, and tales-large at 5.1. Guessing evenly among
# GPT-2's tokens would be at 10.8.
MOST_NATS_PER_TOKEN = 4.5


PROGRAM = "python -m weights.check"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line asks. Return the exit code."""
    return run_program(PROGRAM, lambda: run(argv))


def run(argv: list[str] | None) -> int:
    """Check the model that was named, and print the result. Return the exit code."""
    # Imported here and not above, so that from the first moment on Ctrl-C is caught.
    from weights.registry import KNOWN_NAMES, resolve

    names = ", ".join(KNOWN_NAMES)
    parser = OneLineParser(prog=PROGRAM, description="Check that a model's weights load right.")
    parser.add_argument("name", nargs="?", default="gpt2", metavar="NAME",
                        help=f"{names}, a ./folder, or owner/name on the hub (default: gpt2)")
    name = parser.parse_args(argv).name
    resolve(name)  # refuses an unknown name before torch is imported
    passed, report = check(name)
    print(f"{name}: {'pass' if passed else 'FAIL'}: {report}")
    return 0 if passed else 1


def check(name: str) -> tuple[bool, str]:
    """Return whether the model is what it should be, and one sentence on what was compared."""
    from weights.load import load_model
    from weights.tokenizer import load_tokenizer

    tokenizer, model = load_tokenizer(name), load_model(name)
    if name in KNOWN_CONTINUATIONS:
        return check_continuation(model, *KNOWN_CONTINUATIONS[name])
    n_ctx = model.config.n_ctx
    if n_ctx == 1:
        raise ValueError(f"{name} reads one token at a time, "
                         "too few to tell whether it loads right")
    return check_loss(model, tokenizer.encode(PLAIN_ENGLISH)[:n_ctx])


def check_continuation(model, prompt: list[int], expected: list[int]) -> tuple[bool, str]:
    """Return whether the greedy continuation of the prompt is the known one, and a sentence."""
    tokens = list(prompt)
    for _ in expected:
        tokens.append(logits_of(model, tokens)[-1].argmax().item())
    got = tokens[len(prompt):]
    return got == expected, (f"greedy decoding of {prompt} was expected to give {expected} "
                             f"and gave {got}")


def check_loss(model, tokens: list[int]) -> tuple[bool, str]:
    """Return whether the mean surprise of the tokens after the first is small, and a sentence."""
    import torch
    import torch.nn.functional as F

    logits = logits_of(model, tokens)
    loss = F.cross_entropy(logits[:-1], torch.tensor(tokens[1:])).item()
    passed = loss < MOST_NATS_PER_TOKEN
    return passed, ("no continuation to compare with is known for it, so this is the weaker check: "
                    f"{loss:.2f} nats per token on plain English, "
                    f"expected below {MOST_NATS_PER_TOKEN}")


def logits_of(model, tokens: list[int]):
    """Return the logits after each token, (T, n_vocab). Raises WeightsError if one is no number."""
    import torch

    from weights.errors import WeightsError

    logits = model(torch.tensor([tokens]))[0]
    if not logits.isfinite().all():
        raise WeightsError("the model computes NaN or infinity instead of logits: its weights are "
                           "damaged, or training went wrong; fetch it again, or train it again")
    return logits


if __name__ == "__main__":
    sys.exit(main())
