"""The README.md of a trained model: on what, how, and how good."""

from model import GPT2Config
from weights.training.corpus import Corpus
from weights.training.loop import Trainer
from weights.training.objective import Evaluation
from weights.training.progress import minutes


def make_card(name: str, config: GPT2Config, corpus: Corpus, trainer: Trainer, result: Evaluation) -> str:
    """The card in Markdown. result: the measurement of the weights that lie beside it."""
    recipe, n_ids, context = trainer.recipe, len(corpus.train), config.n_ctx
    seen = trainer.step * recipe.batch * context
    parameters = sum(weight.numel() for weight in trainer.weights.values())
    objective = "next-token loss"
    if trainer.teacher is not None:
        objective = f"{recipe.kl_share:g} KL(target || draft) + {1 - recipe.kl_share:g} next-token loss"
    lines = [
        f"# {name}",
        "",
        f"A GPT-2 of {config.n_layer} layers, {config.n_head} heads, width {config.n_embd} and context {context}: "
        f"{parameters:,} parameters, stored in half precision. Made by `python -m weights.train`.",
        "",
        "| | |",
        "|---|---|",
        f"| text | {corpus.name}: {corpus.n_documents:,} documents, {corpus.n_characters:,} characters |",
        f"| its SHA-256 | {corpus.digest} |",
        f"| vocabulary | {config.n_vocab:,} tokens of GPT-2's, with `<\\|endoftext\\|>` |",
        f"| trained on | {n_ids:,} tokens, seen {seen / n_ids:.2f} times |",
        f"| held out | {corpus.held_out_from} |",
        f"| objective | {objective} |",
        f"| training | {trainer.step:,} steps of {recipe.batch} × {context} tokens in {minutes(trainer.seconds)} minutes, "
        f"on {trainer.ids.device.type} |",
        f"| settings | AdamW, learning rate {recipe.learning_rate:g}, weight decay {recipe.weight_decay:g}, "
        f"dropout {recipe.dropout:g}, gradients clipped at 1, seed {trainer.seed} |",
        f"| weights | the best of {len(trainer.curve)} measurements, at step {trainer.best.step:,} |",
        f"| **held-out loss** | **{result.loss:.3f}** nats a token, over {result.tokens:,} tokens |",
    ]
    if result.acceptance is not None:
        lines += [f"| **Σ min(p, q)** with its target | **{result.acceptance:.3f}** |",
                  f"| **greedy agreement** with it | **{result.agreement:.3f}** |"]
    return "\n".join([*lines, "", *curve_table(trainer), ""])


def curve_table(trainer: Trainer) -> list[str]:
    """The curve, on the smaller sample that was measured during training."""
    draft = trainer.teacher is not None
    lines = [f"During training, on {trainer.curve[0].held_out.tokens:,} held-out tokens:", "",
             "| step | minutes | loss of the batch | held-out loss |" + (" Σ min(p, q) | greedy agreement |" if draft else ""),
             "|---|---|---|---|" + ("---|---|" if draft else "")]
    for point in trainer.curve:
        train_loss = "" if point.train_loss is None else f"{point.train_loss:.3f}"
        line = f"| {point.step} | {minutes(point.seconds)} | {train_loss} | {point.held_out.loss:.3f} |"
        if draft:
            line += f" {point.held_out.acceptance:.3f} | {point.held_out.agreement:.3f} |"
        lines.append(line)
    return lines
