"""Checks of notebook 9.

The truth is the project's own loss, its gradient by autograd, and its own rule enumerated.
"""
import functools

import torch

from decoding.acceptance import accept_sampled
from decoding.proof.enumerate import distribution_of
from decoding.random import draw
from tutorials.grading import Mistake, check, die, fresh
from weights.training.objective import distillation_loss

DICE = torch.Generator().manual_seed(0)
LOGITS = [tuple(2 * torch.randn(2, T, n_vocab, generator=DICE))
          for T, n_vocab in ((1, 3), (2, 4), (5, 8))]
ROWS = {"unsure": [0.4, 0.3, 0.2, 0.1], "like it": [0.5, 0.2, 0.2, 0.1],
        "reversed": [0.1, 0.2, 0.3, 0.4], "sure": [0.96, 0.02, 0.01, 0.01],
        "sure of two": [0.6, 0.3998, 0.0001, 0.0001],
        "off at two": [0.6, 0.1, 0.2, 0.1], "off at four": [0.51, 0.4, 0.09, 0.0]}

TWICE, BETTER = "9 The draft, twice", "9 A better model, a worse draft"


def check_distillation(answer, seed=None) -> str:
    def kl(change):
        def loss(logits, teacher_logits):
            log_q, log_p = logits.log_softmax(-1), teacher_logits.detach().log_softmax(-1)
            return change(log_q, log_p)
        return in_training(loss)

    def learning(logits, teacher_logits):
        log_q, log_p = logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        return (log_p.exp() * (log_p - log_q)).sum(-1).mean()

    known = [Mistake(kl(lambda log_q, log_p: (log_q.exp() * (log_q - log_p)).sum(-1).mean()),
                     "the other direction is taken, KL(q || p)", TWICE),
             Mistake(in_training(learning), "the gradient reaches the target, too: `detach` is "
                     "missing", TWICE),
             Mistake(kl(lambda log_q, log_p: -(log_p.exp() * log_q).sum(-1).mean()), "the entropy "
                     "of p is forgotten: that is the cross-entropy", TWICE),
             Mistake(kl(lambda log_q, log_p: (log_p.exp() * (log_p - log_q)).sum()), "the "
                     "positions are summed, and not averaged", TWICE)]
    return check(in_training(answer), in_training(whole_kl), LOGITS + fresh(seed, more_logits),
                 close=1e-4, known=known)


def more_logits(rng):
    return tuple(torch.tensor([[rng.gauss(0, 2) for _ in range(4)] for _ in range(3)])
                 for _ in range(2))


def check_gradient(answer, seed=None) -> str:
    def truth(logits, p):
        logits.requires_grad_()
        whole_kl(logits[None], p.log()[None]).backward()
        return logits.grad

    cases = [(ours[0], theirs[0].softmax(-1))
             for ours, theirs in LOGITS + fresh(seed, more_logits)]
    known = [Mistake(lambda logits, p: p - logits.softmax(-1), "the sign is turned: that is the "
                     "way to go, against the gradient", TWICE),
             Mistake(lambda logits, p: logits - p, "the logits are taken for probabilities: the "
                     "softmax is missing", TWICE)]
    return check(answer, truth, cases, close=1e-5, known=known)


def check_better_draft(answer, seed=None) -> str:
    def truth(p, drafts, tokens):
        kept = [sum(chance_of_keeping(p[i], q[i]) for i in range(len(p))) for q in drafts]
        return kept.index(max(kept))

    pairs = [("sure", "like it"), ("like it", "sure"), ("reversed", "sure of two"),
             ("off at four", "off at two")]
    short = [(rows("unsure"), torch.stack([rows(a), rows(b)]), torch.tensor([0])) for a, b in pairs]
    texts = [("sure", "unsure", "sure"), ("reversed", "sure", "sure"),
             ("like it", "like it", "like it")]
    long = (rows("unsure", "sure", "sure"), torch.stack([rows(*text) for text in texts]),
            torch.tensor([3, 0, 3]))

    def more(rng):
        p, *drafts = (torch.stack([die(rng, 4) for _ in range(3)]) for _ in range(4))
        return p, torch.stack(drafts), torch.tensor([rng.randrange(4) for _ in range(3)])

    def best(score):
        return lambda p, drafts, tokens: max(range(len(drafts)),
                                             key=lambda i: score(p, drafts[i], tokens))

    known = [Mistake(best(lambda p, q, tokens: q.gather(-1, tokens[:, None]).log().sum().item()),
                     "the draft with the lowest loss of its own is taken", BETTER),
             Mistake(best(lambda p, q, tokens: -(p * (p / q.clamp(min=1e-30)).log()).sum().item()),
                     "the draft with the lowest KL is taken", BETTER),
             Mistake(best(lambda p, q, tokens: (p.argmax(-1) == q.argmax(-1)).sum().item()),
                     "the draft that most often has the target's favourite is taken", BETTER)]
    return check(answer, truth, [*short, long, *fresh(seed, more)], known=known)


def rows(*names):
    return torch.tensor([ROWS[name] for name in names], dtype=torch.float64)  # (T, n_vocab)


def whole_kl(logits, teacher_logits):
    """The project's loss on one text, all of it KL and none of it the next token."""
    no_matter = torch.zeros(1, len(logits), dtype=torch.long)
    return distillation_loss(logits[None], teacher_logits.detach()[None], no_matter, kl_share=1.0)


def in_training(answer):
    """Wrap a learner's loss: return its value, and the gradients it sends to both models."""
    @functools.wraps(answer)
    def loss_and_gradients(logits, teacher_logits):
        leaves = [logits.requires_grad_(), teacher_logits.requires_grad_()]
        loss = answer(*leaves)
        if loss is None:
            return None
        if not isinstance(loss, torch.Tensor) or loss.dim() > 0:
            what = repr(loss)
            if isinstance(loss, torch.Tensor):
                what = f"a tensor of the shape {tuple(loss.shape)}"
            raise TypeError(f"a loss is a tensor with a single number, not {what}")
        if loss.requires_grad:
            loss.backward()
        ours, theirs = (torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
                        for leaf in leaves)
        return {"loss": loss.detach(), "gradient for the draft": ours,
                "gradient for the target": theirs}
    return loss_and_gradients


def chance_of_keeping(p, q):
    """Return the probability that the project's rule keeps a token drafted from q, enumerated."""
    def program(generator):
        drafted = draw(q[None], generator)
        return accept_sampled(drafted, q[None], torch.stack([p, p]), generator).n.item()
    return distribution_of(program).get(1, 0.0)
