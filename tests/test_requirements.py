"""Requirements and imports agree: every requirement is used, every import is required."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

# Required without being imported here, and why.
UNSEEN = {
    "grpcio": "Spark Connect checks for it before it connects",
    "grpcio-status": "the same",
    "googleapis-common-protos": "the same",
    "zstandard": "the same",
    "moto": "tests run its server",
    "flask": "that server is made of it",
    "flask-cors": "the same",
    "hatchling": "make dist runs it",
    "ipykernel": "the tour runs in it",
    "mkdocs-material": "make docs: the look of the site",
    "mkdocstrings": "make docs: the reference, from docstrings",
    "mypy": "make lint runs it, and test_wheel",
    "ruff": "make lint runs it",
}
# Imported although only what is named here requires it: each is the inside of that library.
INSIDE = {"llvmlite": "numba", "py4j": "pyspark"}
# Imported by tests and tools, brought by what they are for: moto, mkdocs, nbclient.
LENT = {"botocore", "packaging", "griffelib", "nbformat", "jupyter-client", "pyyaml"}


def name_of(requirement: str) -> str:
    """The distribution that a requirement asks for."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def required(*groups) -> set[str]:
    return {name_of(text) for group in groups for text in group} - {"precedes"}


def third_party(*folders: Path) -> set[str]:
    """Top modules that files import when they run, of other distributions than this one."""
    found = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        unread = [ast.parse(path.read_text(encoding="utf-8"))]
        while unread:
            node = unread.pop()
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                unread += node.orelse
                continue
            unread += ast.iter_child_nodes(node)
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.partition(".")[0])
    ours = {"precedes", "precedes_papers", "tests", "tools", "bench"}
    ours |= {path.stem for path in ROOT.glob("bench/*.py")}
    return found - ours - sys.stdlib_module_names


def distributions(modules: set[str]) -> set[str]:
    """The distributions that these modules come from."""
    known = importlib.metadata.packages_distributions()
    return {name_of(known[module][0]) for module in modules}


USED = distributions(third_party(ROOT / "src"))
TESTED = distributions(third_party(ROOT / "tests", ROOT / "bench", ROOT / "tools"))
FOR_USERS = [texts for name, texts in EXTRAS.items() if name != "dev"]


def test_what_users_get_is_used():
    unused = required(PROJECT["dependencies"], *FOR_USERS) - USED - UNSEEN.keys()
    assert unused == set()


def test_what_developers_get_is_used():
    assert required(EXTRAS["dev"]) - TESTED - UNSEEN.keys() == set()


def test_what_is_imported_is_required():
    asked = required(PROJECT["dependencies"], *FOR_USERS)
    assert USED - asked == set(INSIDE)
    assert TESTED - asked - required(EXTRAS["dev"]) - set(INSIDE) <= LENT
    for inner, outer in INSIDE.items():
        assert inner in required(importlib.metadata.requires(outer))


def test_no_excuse_is_out_of_date():
    asked = required(PROJECT["dependencies"], *EXTRAS.values())
    assert UNSEEN.keys() <= asked
    assert not UNSEEN.keys() & USED


def test_the_core_needs_no_extra():
    """Modules outside of these owners import what the core brings, at any time."""
    owners = ("live", "pages", "pipeline", "spark")
    core = [path for path in (ROOT / "src/precedes").iterdir() if path.name not in owners]
    found = third_party(*(path for path in core if path.is_dir()))
    assert distributions(found) <= required(PROJECT["dependencies"]) | {"llvmlite"}


def test_a_requirement_that_nobody_imports_would_be_found(tmp_path):
    (tmp_path / "a.py").write_text("if TYPE_CHECKING:\n    import rich\nelse:\n    import shtab\n")
    assert third_party(tmp_path) == {"shtab"}
    assert distributions({"shtab"}) == {"shtab"}
    assert required(["rich>=14.1", "moto[s3]>=5", "Flask_Cors; x"]) == {
        "rich",
        "moto",
        "flask-cors",
    }
