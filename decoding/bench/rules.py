"""`python -m decoding.bench.rules`: what other rules and trees keep of the very same drafts.

Two tables, about the bundled pair. The first: tokens per round that the token rule and the block
rule expect for the same drafted tokens, and the gain of the block rule with its standard error. No
uniform is involved. The second: the chance that one of w candidates for a position is kept, drawn
from the draft without replacement, or chosen as its likeliest w. Counts, no times: the machine may
be busy.
"""
import sys
from statistics import fmean, stdev

import torch
from torch import Tensor

from decoding.acceptance import accept_block, accept_sampled, judge
from decoding.baseline import autoregressive
from decoding.bench.prompts import default_prompts
from decoding.observer import Trace
from decoding.proof.mistakes_of_trees import chance_of_chosen, chance_of_drawn
from decoding.result import Round
from decoding.sampling import Sampling, to_probs
from decoding.speculative import speculative_rounds
from model import Decoder
from weights import load_model, load_tokenizer
from weights.console import OneLineParser, real, run_program, whole

PROGRAM = "python -m decoding.bench.rules"
TARGET, DRAFT = "tales-large", "tales-small"
WIDTHS = (1, 2, 3, 4, 8)


def main() -> int:
    return run_program(PROGRAM, measure)


def measure() -> None:
    """Read the options, then measure and print."""
    parser = OneLineParser(prog=PROGRAM, allow_abbrev=False, description=__doc__.splitlines()[0])
    parser.add_argument("--gammas", metavar="N", type=whole(1), nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--temperatures", metavar="T", nargs="+", default=[0.8, 1.0],
                        type=real(0, float("inf"), "a finite number above 0", False))
    parser.add_argument("--tokens", metavar="N", type=whole(2), default=120,
                        help="new tokens per text (default: %(default)s)")
    parser.add_argument("--seeds", metavar="N", type=whole(1), default=2,
                        help="texts per prompt (default: %(default)s)")
    options = parser.parse_args()
    target, draft = load_model(TARGET), load_model(DRAFT)
    tokenizer = load_tokenizer(TARGET)
    prompts = [tokenizer.encode(text) for text in default_prompts(TARGET).values()]
    if max(map(len, prompts)) + options.tokens > draft.config.n_ctx:
        raise ValueError(f"--tokens {options.tokens} does not fit into the context, "
                         f"{draft.config.n_ctx}")
    print("| temperature | γ | measured, token rule | block rule | rounds "
          "| expected, token rule | block rule | gain |\n" + "|---" * 8 + "|")
    for temperature in options.temperatures:
        for gamma in options.gammas:
            runs = {rule: [round for prompt in prompts for seed in range(options.seeds)
                           for round in speculative_rounds(
                               target, draft, prompt, options.tokens, gamma=gamma, rule=rule,
                               sampling=Sampling(temperature), trace=True,
                               generator=torch.Generator().manual_seed(seed))]
                    for rule in (accept_sampled, accept_block)}
            print(gain_line(temperature, gamma, *runs.values()), flush=True)
    print(f"\n| candidates | {' | '.join(map(str, WIDTHS))} |\n" + "|---" * (1 + len(WIDTHS)) + "|")
    for temperature in options.temperatures:
        for line in candidate_lines(target, draft, prompts, temperature, options.tokens):
            print(line, flush=True)


def gain_line(temperature: float, gamma: int, by_token: list[Round], by_block: list[Round]) -> str:
    """Return a line of the first table. The expectations are over the drafts of both runs."""
    measured = [fmean(len(r.emitted) for r in rounds) for rounds in (by_token, by_block)]
    both = [expected_kept(r) for r in by_token + by_block if len(r.drafted) == gamma]
    token, block = (1 + fmean(pair[i] for pair in both) for i in (0, 1))
    gains = [block - token for token, block in both]
    error = stdev(gains) / len(gains) ** 0.5
    return (f"| {temperature:g} | {gamma} | {measured[0]:.2f} | {measured[1]:.2f} "
            f"| {len(by_token)}, {len(by_block)} | {token:.3f} | {block:.3f} "
            f"| {100 * (block - token) / token:.1f} % ± {100 * error / token:.1f} |")


def expected_kept(round: Round) -> tuple[float, float]:
    """Return how many of a round's drafted tokens the token rule and the block rule keep, expected.

    The chance to keep i or more is the product of the first i min(1, p/q), or P_i.
    """
    trace = round.trace
    assert isinstance(trace, Trace)
    drafted = torch.tensor(round.drafted)
    x = drafted[:, None]
    ratio = (trace.p[:len(x)].gather(1, x) / trace.q.gather(1, x)).squeeze(1)  # (k,)
    P = judge(drafted, trace.q, trace.p).P  # (k + 1,)
    return ratio.clamp(max=1).cumprod(0).sum().item(), P[1:].sum().item()


@torch.no_grad()
def candidate_lines(target: Decoder, draft: Decoder, prompts: list[list[int]], temperature: float,
                    tokens: int) -> list[str]:
    """Return two lines of the second table, means over the positions of texts of the target."""
    sampling, generator = Sampling(temperature), torch.Generator().manual_seed(0)
    rows: list[list[Tensor]] = [[], []]
    for prompt in prompts:
        new = autoregressive(target, prompt, tokens, sampling=sampling, generator=generator).tokens
        text = torch.tensor([prompt + new[:-1]])
        for model, found in zip((target, draft), rows):
            found.append(to_probs(model.forward(text, last=len(new))[0].double(), sampling))
    p, q = map(torch.cat, rows)
    drawn = [chance_of_drawn(p, q, width, generator).mean().item() for width in WIDTHS]
    chosen = [chance_of_chosen(p, q, width).mean().item() for width in WIDTHS]
    return [f"| {how}, temperature {temperature:g} | "
            + " | ".join(f"{chance:.3f}" for chance in chances) + " |"
            for how, chances in (("drawn", drawn), ("chosen", chosen))]


if __name__ == "__main__":
    sys.exit(main())
