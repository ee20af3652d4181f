"""`python -m tests.quick_modules`: run the quick tests, and say which module they do not run.

A module is run when one of its functions is, or, if it has none, when it is imported. What tests
run in a process of its own is not seen, and is named in ELSEWHERE.
Exit codes: 0 every module is run; 1 some are not, or a test fails.
"""
import ast
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("model", "decoding", "weights", "tutorials")
ELSEWHERE = {"weights/hub.py", "weights/processes/follow.py", "decoding/__main__.py",
             "model/__main__.py", "weights/__main__.py", "decoding/quality/cage.py",
             "decoding/quality/xsum.py"}


def main() -> int:
    called: set[str] = set()

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            called.add(frame.f_code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    code = pytest.main(["-m", "quick", "-q", str(ROOT / "tests")])
    sys.setprofile(None)
    imported = {getattr(module, "__file__", None) for module in sys.modules.values()}
    missed = [path.relative_to(ROOT).as_posix()
              for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
              if str(path) not in (called if has_functions(path) else imported)]
    missed = [name for name in missed if name not in ELSEWHERE]
    for name in missed:
        print(f"no quick test runs {name}")
    return int(bool(code or missed))


def has_functions(path: Path) -> bool:
    """Return whether anything in the file is there to be called."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


if __name__ == "__main__":
    sys.exit(main())
