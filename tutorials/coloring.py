"""Shows in a notebook which model wrote each token of a text, by colour and by the kind of type."""
import codecs
import html
from collections.abc import Iterable

from IPython.display import HTML

from decoding import Round

# Green is what draft and target agree on, blue the target's own, orange the draft's alone. Where
# styles are stripped, as on GitHub, the tag remains: plain, bold, underlined, struck through.
MARKS = {
    "accepted": ("span", "background:#d5efd5"),
    "correction": ("b", "background:#d6e4f7"),
    "bonus": ("ins", "background:#d6e4f7"),
    "rejected": ("del", "background:#fbe3cf"),
}


def colored(rounds: Iterable[Round], tokenizer, prompt: str = "", rejected: bool = False) -> HTML:
    """Return the text of a run, each token marked by its origin: accepted, correction, or bonus.

    A character whose bytes are spread over several tokens is shown with the last of them.
    prompt: what the text began with, in italics.
    rejected: show rejected tokens, too, each before its correction.
    """
    marked = []
    characters = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for round in rounds:
        for i, token in enumerate(round.emitted):
            if rejected and i == round.accepted and round.kind == "correction":
                marked.append(mark(tokenizer.decode([round.drafted[i]]), "rejected"))
            text = characters.decode(tokenizer.decode_single_token_bytes(token))
            marked.append(mark(text, "accepted" if i < round.accepted else round.kind))
    origins = [origin for origin in MARKS if rejected or origin != "rejected"]
    legend = " ".join(mark(origin, origin) for origin in origins)
    return HTML(f"<p style='line-height:1.9'><i style='color:#777'>{escape(prompt)}</i>"
                f"{''.join(marked)}</p><p><small>{legend}</small></p>")


def mark(text: str, origin: str) -> str:
    """Return the text in the tag and the style of its origin."""
    tag, style = MARKS[origin]
    return f"<{tag} style='color:#111;{style}'>{escape(text)}</{tag}>" if text else ""


def escape(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
