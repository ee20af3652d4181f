"""The README.md of a trained model: what it was trained on, how, and how good it is."""
from model import GPT2Config
from weights.training.corpus import Corpus
from weights.training.loop import Trainer
from weights.training.objective import Evaluation
from weights.training.progress import minutes


def make_card(title: str, config: GPT2Config, corpus: Corpus, trainer: Trainer,
              result: Evaluation) -> str:
    """Return the card in Markdown. result: the measurement of the weights that lie beside it."""
    rows = facts(config, corpus, trainer) | results(result)
    size = sum(weight.numel() for weight in trainer.weights.values())
    return "\n".join([
        f"# {title}",
        "",
        (f"A GPT-2 of {size:,} parameters, stored in half precision, "
         "made by `python -m weights.train`."),
        "",
        "| | |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in rows.items()),
        "",
        f"During training, on {trainer.curve[0].held_out.tokens:,} of the held-out tokens:",
        "",
        *curve_table(trainer),
        "",
    ])


def facts(config: GPT2Config, corpus: Corpus, trainer: Trainer) -> dict[str, str]:
    """Return the rows of the table that say what was trained, on what, and how."""
    recipe, step, context = trainer.recipe, trainer.step, config.n_ctx
    optimizer = (f"AdamW, learning rate {recipe.learning_rate:g}, "
                 f"weight decay {recipe.weight_decay:g}, gradients clipped at 1")
    time = f"{minutes(trainer.seconds)} minutes on {trainer.ids.device.type}"
    times_seen = step * recipe.batch * context / len(corpus.train)
    objective = "next-token loss"
    if trainer.teacher is not None:
        objective = (f"{recipe.kl_share:g} KL(target ‖ draft) + "
                     f"{1 - recipe.kl_share:g} next-token loss")
    return {
        "shape": f"{config.n_layer} layers, {config.n_head} heads, width {config.n_embd}, "
                 f"context {context}",
        "text": f"{corpus.name}, {corpus.n_documents:,} documents, "
                f"{corpus.n_characters:,} characters",
        "its SHA-256": corpus.digests[0],
        "vocabulary": f"{config.n_vocab:,} of GPT-2's tokens",
        "trained on": f"{len(corpus.train):,} tokens, seen {times_seen:.2f} times",
        "held out": corpus.held_out_from,
        "objective": objective,
        "optimizer": optimizer,
        "dropout, seed": f"{recipe.dropout:g}, {trainer.seed}",
        "steps": f"{step:,} of {recipe.batch} × {context} tokens, {time}",
        "weights": f"of step {trainer.best.step:,}, the best of {len(trainer.curve)} measurements",
    }


def results(result: Evaluation) -> dict[str, str]:
    """Return the rows of the table that say how good the model is."""
    rows = {"**held-out loss**": f"**{result.loss:.3f}** nats a token, "
                                 f"over {result.tokens:,} tokens"}
    if result.acceptance is not None:
        rows["**Σ min(p, q)** with its target"] = f"**{result.acceptance:.3f}**"
        rows["**greedy agreement** with it"] = f"**{result.agreement:.3f}**"
    return rows


def curve_table(trainer: Trainer) -> list[str]:
    """Return the lines of a table, a row for each measurement."""
    titles = ["step", "minutes", "loss of the batch", "held-out loss"]
    if trainer.teacher is not None:
        titles += ["Σ min(p, q)", "greedy agreement"]
    rows = [titles, ["---"] * len(titles)]
    for point in trainer.curve:
        held_out = point.held_out
        numbers = [point.train_loss, held_out.loss, held_out.acceptance, held_out.agreement]
        cells = ["" if value is None else f"{value:.3f}" for value in numbers]
        rows.append([str(point.step), minutes(point.seconds), *cells][:len(titles)])
    return ["| " + " | ".join(row) + " |" for row in rows]
