"""The requirements files: ranges for users, and the oldest versions, which can be tried."""
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
OLDEST = ROOT / "tests" / "oldest.txt"
NOT_RUN_BY_TESTS = {"mypy", "ruff"}  # their findings are those of the newest


def lines(path):
    """The requirements of a file, without comments."""
    found = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in found if line]


def least(path):
    """{package: the oldest version that a file and those it includes promise}"""
    versions = {}
    for line in lines(path):
        if line.startswith("-r "):
            versions |= least(path.parent / line.removeprefix("-r "))
        else:
            package, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()  # no exact pins
            versions[package] = version
    return versions


def same_version(a, b):
    """2.6 is 2.6.0."""
    return re.sub(r"(\.0)+$", "", a) == re.sub(r"(\.0)+$", "", b)


def test_the_oldest_set_is_what_the_requirements_promise():
    oldest = dict(line.split("==") for line in lines(OLDEST))
    promised = least(ROOT / "tests" / "requirements.txt")
    assert oldest.keys() == promised.keys() - NOT_RUN_BY_TESTS
    for package, version in oldest.items():
        assert same_version(version, promised[package]), package


def test_notebooks_need_no_library_of_the_tests():
    assert "transformers" not in least(ROOT / "tutorials" / "requirements.txt")
