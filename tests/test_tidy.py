"""The repository is tidy, and every check of tools/tidy.py is able to fail."""

import shutil
import subprocess
import sys

import pytest

from tests.support.places import ROOT
from tools import tidy

DOCUMENTED = '"""A module."""\n'


@pytest.fixture
def plant(tmp_path):
    """Write files into an otherwise tidy repository and return what is found there."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")

    def check(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [str(finding) for finding in tidy.check(tmp_path)]

    return check


def test_repository_is_tidy():
    findings = "\n".join(map(str, tidy.check(ROOT)))
    assert not findings, findings


def test_tidy_files_have_no_findings(plant):
    files = {
        "src/precedes/__init__.py": DOCUMENTED + "from precedes.sim import simulate\n",
        "src/precedes/compiled/__init__.py": DOCUMENTED + "import numba\n",
        "src/precedes/cli/main.py": DOCUMENTED + "from precedes import audit, live, sim\n",
        "src/precedes/live/net/links.py": DOCUMENTED + "import asyncio\n",
        "src/precedes/pipeline/spark/session.py": DOCUMENTED + "import pyspark.sql\n",
        "src/precedes/protocols/vector.py": DOCUMENTED + "from precedes import contract, parts\n",
        "src/precedes/parts/pool.py": DOCUMENTED + "from precedes.contract import DONE\n",
        "src/precedes/sim/run.py": DOCUMENTED + "from precedes import contract, registry\n",
        "src/precedes/sim/runs.py": DOCUMENTED + "from precedes.trace import TraceWriter\n",
        "src/precedes/audit/witness.py": DOCUMENTED + "from precedes import compiled, trace\n",
        "docs/protocols/vector.md": "# vector\n",
    }
    assert plant(files) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("model.py", "from precedes import compiled"),
        ("compiled/cache.py", "import precedes.contract"),
        ("sim/run.py", "from precedes.trace import writer"),
        ("sim/run.py", "from precedes import live"),
        ("live/group.py", "from ..sim import engine"),
        ("trace/writer.py", "from precedes import compiled"),
        ("audit/causal_order.py", "from precedes import contract"),
        ("sim/run.py", "from precedes.protocols import vector"),
        ("audit/causal_order.py", "from precedes import clocks"),
        ("audit/causal_order.py", "from .. import sim"),
        ("pipeline/plan.py", "from precedes import cli"),
        ("parts/pool.py", "from precedes.protocols import vector"),
        ("parts/pool.py", "from precedes.protocols.vector import State"),
        ("sim/run.py", "from precedes import simulate"),
    ],
)
def test_import_to_the_right_is_found(plant, file, line):
    (finding,) = plant({f"src/precedes/{file}": f"{DOCUMENTED}\n{line}\n"})
    assert finding.startswith(f"src/precedes/{file}:3: ")
    assert "may not import precedes." in finding


@pytest.mark.parametrize("module", ["numba", "pyspark.sql", "socket", "asyncio"])
def test_import_of_an_owned_module_is_found(plant, module):
    body = f"{DOCUMENTED}def late():\n    '''Imports late.'''\n    import {module}\n"
    (finding,) = plant({"src/precedes/sim/run.py": body})
    assert finding.startswith("src/precedes/sim/run.py:4: only ")


def test_part_without_a_place_is_found(plant):
    (finding,) = plant({"src/precedes/misc.py": DOCUMENTED})
    assert "misc has no place" in finding


def test_long_function_is_found(plant):
    body = "def f():\n" + "    pass\n" * (tidy.FUNCTION_LINES_MAX - 1)
    assert plant({"bench/a.py": body}) == []
    (finding,) = plant({"bench/a.py": body + "    pass\n"})
    assert finding == "bench/a.py:1: f has 61 lines (max 60)"


@pytest.mark.parametrize("word", ["TO" + "DO", "fix" + "me", "X" + "XX"])
def test_left_over_note_is_found(plant, word):
    (finding,) = plant({"docs/live.md": f"Ready.\n{word}: not ready\n"})
    assert finding == f"docs/live.md:2: left-over note: {word}"


def test_large_file_is_found(plant):
    (finding,) = plant({"docs/data.bin": "x" * (tidy.FILE_BYTES_MAX + 1)})
    assert finding.startswith("docs/data.bin:1: file of 1000001 bytes")


def test_protocol_without_a_page_is_found(plant):
    text = f"{DOCUMENTED}GUARANTEE = 'causal'\n"
    (finding,) = plant({"src/precedes/protocols/vector.py": text})
    assert "docs/protocols/vector.md" in finding


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "module has no docstring"),
        (f"{DOCUMENTED}def f(): ...\n", "f has no docstring"),
        (f"{DOCUMENTED}async def f(): ...\n", "f has no docstring"),
        (f"{DOCUMENTED}class C: ...\n", "C has no docstring"),
        (f"{DOCUMENTED}class C:\n    'A class.'\n    def f(self): ...\n", "f has no docstring"),
    ],
)
def test_missing_docstring_is_found(plant, text, what):
    (finding,) = plant({"src/precedes/model.py": text})
    assert finding.endswith(what)


def test_private_names_need_no_docstring(plant):
    text = f"{DOCUMENTED}def _f(): ...\nclass _C:\n    def f(self): ...\n"
    assert plant({"src/precedes/model.py": text}) == []


def test_changelog_without_unreleased_is_found(plant):
    (finding,) = plant({"CHANGELOG.md": "# Changelog\n\n## [0.1.0]\n"})
    assert finding == "CHANGELOG.md:1: no Unreleased section"


def test_file_that_does_not_parse_is_found(plant):
    (finding,) = plant({"tools/a.py": "def\n"})
    assert finding.startswith("tools/a.py:1: does not parse")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_only_files_that_git_would_take_are_read(plant, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert plant({".gitignore": "ignored.md\n", "ignored.md": "TO" + "DO\n"}) == []
    (finding,) = plant({"seen.md": "TO" + "DO\n"})
    assert finding.startswith("seen.md:1: ")


def test_command_exits_1_on_findings(plant, tmp_path):
    plant({"src/precedes/model.py": ""})
    command = [sys.executable, str(ROOT / "tools/tidy.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == "src/precedes/model.py:1: module has no docstring\n"
