"""All papers have one layout, and each is cited as what it is."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precedes.errors import UserError
from precedes.registry import names
from precedes_papers.registry import Reference, load, number_of, papers, references
from tests.support.places import ROOT

PACKAGES = ROOT / "src/precedes_papers"
FILES = ("__init__", "experiments", "metrics", "items")
# What each may import of its own package.
SEES = {file: FILES[:place] for place, file in enumerate(FILES)}


def faults(folder: Path) -> list[str]:
    """Differences from the layout of other packages of papers."""
    found = [f"{file}.py is missing" for file in FILES if not (folder / f"{file}.py").is_file()]
    for path in sorted(folder.glob("*.py")):
        if path.stem not in FILES:
            found.append(f"{path.name} is in no other package")
            continue
        for name in imported(path):
            package, _, file = name.removeprefix("precedes_papers.").partition(".")
            if not name.startswith("precedes_papers.p") or not package[1:].isdigit():
                continue
            if package != folder.name or (file or "__init__") not in SEES[path.stem]:
                found.append(f"{path.name} imports {name}")
    return found


def imported(path: Path) -> list[str]:
    """Modules that a file imports, those named after `import` included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inside = [alias.name for alias in node.names if alias.name in FILES]
            found += [f"{node.module}.{name}" for name in inside] or [str(node.module)]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("number", papers())
def test_a_paper_has_the_layout_of_all(number):
    assert faults(PACKAGES / f"p{number}") == []


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("items.py", None, "items.py is missing"),
        ("readings.py", "", "readings.py is in no other package"),
        ("experiments.py", "from precedes_papers.p003 import metrics", "imports precedes_papers"),
        ("metrics.py", "from precedes_papers.p003.items import SIZE", "imports precedes_papers"),
        ("items.py", "import precedes_papers.p001.metrics", "imports precedes_papers.p001"),
    ],
)
def test_another_layout_is_found(tmp_path, file, text, says):
    folder = shutil.copytree(PACKAGES / "p003", tmp_path / "p003")
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    (fault,) = faults(folder)
    assert says in fault


def test_five_papers_are_found_by_rule():
    assert papers() == ("000", "001", "002", "003", "004")
    assert [path.name for path in sorted(PACKAGES.glob("p[0-9]*"))] == [f"p{n}" for n in papers()]


def test_a_paper_is_asked_for_by_number_or_protocol():
    asked = {
        "vcube": "000",
        "bundled": "001",
        "dcs": "002",
        "probabilistic": "003",
        "hashed": "003",
        "mobile": "004",
    }
    assert {name: number_of(name) for name in asked} == asked
    assert {number: number_of(number) for number in papers()} == {n: n for n in papers()}
    assert load("vcube").claims is load("000").claims
    of_all = [name for reference in references().values() for name in reference.protocols]
    assert sorted(of_all) == sorted(asked)
    assert set(of_all) <= set(names())
    with pytest.raises(UserError, match=r"'vector' is not here: .*000 \(vcube\).*\(hashed or"):
        number_of("vector")


def test_which_paper_is_which_loads_nothing_heavy():
    script = """
import sys
from precedes_papers.registry import references
assert len(references()) == 5
print(*{"numba", "numpy", "pyarrow", "pyspark", "matplotlib"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.decode() == "\n"


def test_a_citation():
    one = Reference(("Doe, Jane",), "Of Things", "Things", 1999, "Somewhere", ("vector",))
    assert one.citation == "Doe 1999"
    assert str(one) == "Jane Doe. Of Things. Somewhere. 1999."
    two = Reference(("de A, B", "C, D"), "T", "t", 1999, "V", ("x",), hal="hal-1", doi="10.1/x")
    assert two.citation == "de A et al. 1999"
    assert str(two) == "B de A, D C. T. V. 1999. HAL hal-1. doi:10.1/x."
    unknown = Reference((), "Of Things", "Things", None, "", ("vector",))
    assert unknown.citation == '"Things"'
    assert str(unknown) == "Authors not named. Of Things. Not dated."


def missing_entries(page: str, file: str) -> list[str]:
    """Papers that the bibliography does not have as they are stated, or that cannot be cited."""
    found = []
    for number, reference in references().items():
        if str(reference) not in " ".join(page.split()):
            found.append(f"{number} in the bibliography")
        family = [name.partition(",")[0] for name in reference.authors]
        for text in (reference.title, reference.hal, reference.doi, *family):
            if text not in file:
                found.append(f"{text} in CITATION.cff")
    return found


def test_the_bibliography_has_every_paper():
    page = (ROOT / "docs/bibliography.md").read_text(encoding="utf-8")
    file = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert missing_entries(page, file) == []
    assert missing_entries(page.replace("2023", "2022"), file) == ["002 in the bibliography"]
    assert missing_entries(page, file.replace("hal-03984499", "")) == [
        "hal-03984499 in CITATION.cff"
    ]
    for number, reference in references().items():
        assert f"`precedes_papers.p{number}`" in page
        assert reference.citation in page


NUMBERED = re.compile(r"\bpapers?\s+00[0-4]\b", re.IGNORECASE)


def test_prose_calls_papers_by_their_authors():
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/**/*.md")]
    named = {path.name for path in pages if NUMBERED.search(path.read_text(encoding="utf-8"))}
    assert named == set()
    for path in PACKAGES.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                assert not NUMBERED.search(ast.get_docstring(node) or ""), path
    assert NUMBERED.search("as Paper 003 has it, or papers\n000 and 001")
