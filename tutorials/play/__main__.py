"""`python -m tutorials.play`: join the files of this folder into tutorials/play.html.

The page opens from the disk, where a browser loads no modules. So they become one script, in an
order in which each stands after those it imports. No two may give a name at the top twice: the
browser would refuse the script.
"""
import re
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "play.html"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)


def join() -> str:
    """Return the page."""
    page = read("page.html").replace("/* style.css */\n", read("style.css"))
    for path in FOLDER.glob("*.json"):  # < could end the element that it stands in
        page = page.replace(f"\n{path.name}\n", "\n" + read(path.name).replace("<", "\\u003c"))
    return page.replace("// main.js and what it imports\n", script())


def script() -> str:
    """Return all modules as one, without imports and exports."""
    imports = {path.stem: IMPORT.findall(read(path.name)) for path in sorted(FOLDER.glob("*.js"))}
    parts = []
    for name in TopologicalSorter(imports).static_order():
        source = IMPORT.sub("", read(f"{name}.js"))
        parts.append(f"// {name}.js\n" + re.sub(r"^export ", "", source, flags=re.MULTILINE))
    return "\n".join(parts)


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(join(), encoding="utf-8", newline="\n")
    print(f"wrote {PAGE}")
