"""Solutions to the exercises of notebook 9."""


def distillation(logits, teacher_logits):
    """The mean over the positions of sum p (log p - log q). `detach`: the target is a constant."""
    log_q, log_p = logits.log_softmax(-1), teacher_logits.detach().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def gradient(logits, p):
    """q - p: a token that the draft finds too likely is pushed down, a too unlikely one up."""
    return logits.softmax(-1) - p


def better_draft(p, drafts, tokens):
    """The largest mean of sum min(p, q). What the text says next does not matter."""
    alphas = [p.minimum(q).sum(-1).mean().item() for q in drafts]
    return alphas.index(max(alphas))
