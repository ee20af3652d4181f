"""Shows in a notebook which model wrote each token of a text, by colour and by a line below."""
import codecs
import html
from collections.abc import Iterable

from IPython.display import HTML

from decoding import Round

# Green is what draft and target agree on, blue the target's own. Readable in black and white: each
# origin has its own line below.
STYLES = {
    "accepted": "background:#d5efd5;border-bottom:2px solid #2a7a2a",
    "correction": "background:#d6e4f7;border-bottom:2px dashed #1f5fb0;font-weight:bold",
    "bonus": "background:#d6e4f7;border-bottom:3px double #1f5fb0",
}


def colored(rounds: Iterable[Round], tokenizer, prompt: str = "") -> HTML:
    """Return the text of a run, each token marked by its origin: accepted, correction, or bonus.

    A character whose bytes are spread over several tokens is shown with the last of them.
    """
    spans = [f"<span style='color:#777'>{escape(prompt)}</span>"]
    characters = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for round in rounds:
        for i, token in enumerate(round.emitted):
            text = characters.decode(tokenizer.decode_single_token_bytes(token))
            spans.append(mark(text, "accepted" if i < round.accepted else round.kind))
    legend = " ".join(mark(f" {origin} ", origin) for origin in STYLES)
    return HTML(f"<p style='line-height:1.9'>{''.join(spans)}</p><p><small>{legend}</small></p>")


def mark(text: str, origin: str) -> str:
    """Return the text in the style of its origin."""
    return f"<span style='color:#111;{STYLES[origin]}'>{escape(text)}</span>" if text else ""


def escape(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
