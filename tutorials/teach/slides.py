"""Slides from the notebooks' own cells: python -m tutorials.teach.slides lesson.html

One file that needs no network. Which cells it shows stands in the notebooks, in the metadata
`slideshow.slide_type` that Jupyter's own editor sets: a cell tagged "slide" begins one, a cell
tagged "fragment" comes in at a key press, any other is left out. Of code the stored output is
shown, so run a notebook to have your own numbers on its slides.
"""
import argparse
import html
import json
import re
from pathlib import Path
from typing import Any

import mistune
from latex2mathml.converter import convert

from weights.console import OneLineParser, run_program

TEACH = Path(__file__).parent
PROGRAM = "python -m tutorials.teach.slides"


def main(argv: list[str] | None = None) -> int:
    """Write the slides that the command line asks for. Return the exit code."""
    return run_program(PROGRAM, lambda: run(argv))


def run(argv: list[str] | None) -> None:
    parser = OneLineParser(prog=PROGRAM, description="Write the notebooks' slides to one file.")
    parser.add_argument("out", type=Path, help="the file to write, as lesson.html")
    parser.add_argument("numbers", type=a_notebook, nargs="*", metavar="N",
                        help="the notebooks to show, in this order (default: all with slides)")
    options = parser.parse_args(argv)
    paths = options.numbers or sorted(TEACH.parent.glob("[0-9]*.ipynb"))
    slides = [slide for path in paths for slide in slides_of(path)]
    if not slides:
        raise ValueError("there are no slides in these notebooks")
    options.out.write_text(page(slides), encoding="utf-8")
    print(f"{len(slides)} slides in {options.out}; open it in a browser, press ? for the keys")


def a_notebook(number: str) -> Path:
    """Return the path of the notebook with a number, as an argparse type."""
    paths = [path for path in TEACH.parent.glob("[0-9]*.ipynb")
             if path.stem.split("_")[0].lstrip("0") == number]
    if not paths:
        raise argparse.ArgumentTypeError(f"no notebook has the number {number!r}")
    return paths[0]


def slides_of(path: Path) -> list[str]:
    """Return the inside of each slide of a notebook, in HTML."""
    slides: list[str] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        kind = cell["metadata"].get("slideshow", {}).get("slide_type")
        if kind == "slide":
            before, *under_headings = parts_of(cell)
            slides += under_headings or [before]
        elif kind == "fragment":
            if not slides:
                raise ValueError(f"{path.name} begins with a fragment, which has no slide yet")
            slides[-1] += f'<div class="fragment">{parts_of(cell)[0]}</div>'
    return [f'<p class="from">notebook {int(path.stem[:2])}</p>{slide}' for slide in slides]


def parts_of(cell: dict[str, Any]) -> list[str]:
    """Return what a cell shows before its first heading, and then under each heading.

    A slide shows each heading on a slide of its own, and what stands before only if there is none:
    there a cell ends an earlier subject. A fragment shows what stands before.
    """
    if cell["cell_type"] == "code":
        return ["".join(map(shown, cell["outputs"]))]
    return [markdown(part) for part in re.split(r"^(?=#+ )", "".join(cell["source"]), flags=re.M)]


def shown(output: dict[str, Any]) -> str:
    """Return one output of a code cell in HTML."""
    data = {"text/plain": output.get("text", [])} | output.get("data", {})
    content = {form: "".join(text) for form, text in data.items()}
    if "image/png" in content:
        alt = html.escape(output["metadata"].get("image/png", {}).get("alt", ""), quote=True)
        png = content["image/png"].replace("\n", "")
        return f'<img alt="{alt}" src="data:image/png;base64,{png}">'
    if "text/html" in content:
        return f'<div class="html">{content["text/html"]}</div>'
    if "text/markdown" in content:
        return markdown(content["text/markdown"])
    printed = content["text/plain"]
    width = "wide" if max(map(len, printed.splitlines()), default=0) > 70 else "narrow"
    return f'<pre class="{width}">{html.escape(printed)}</pre>'


def markdown(text: str) -> str:
    """Turn a cell's Markdown into HTML, and its formulas into MathML, which needs no script."""
    formulas: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        block, inline = found.groups()
        formulas.append(convert(block or inline, display="block" if block else "inline"))
        return f"\x02{len(formulas) - 1}\x03"  # nothing that Markdown knows

    text = re.sub(r"\$\$(.+?)\$\$|\$(.+?)\$", set_aside, text, flags=re.DOTALL)
    rendered = str(mistune.create_markdown(escape=False, plugins=["table"])(text))
    return re.sub("\x02(\\d+)\x03", lambda found: formulas[int(found[1])], rendered)


def page(slides: list[str]) -> str:
    """Return the file: the slides, a style and a script."""
    sections = "\n".join(f"<section>{slide}</section>" for slide in slides)
    frame = (TEACH / "slides.html").read_text(encoding="utf-8")
    return frame.replace("<!-- slides -->", sections)


if __name__ == "__main__":
    raise SystemExit(main())
