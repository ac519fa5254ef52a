"""The repository is tidy, and every check of tools/tidy.py is able to fail."""

import shutil
import subprocess

import pytest

from tests.support.places import ROOT
from tests.support.processes import python
from tools import lines, tidy

DOCUMENTED = '"""A module."""\n'
PROTOCOL = f"{DOCUMENTED}GUARANTEE = 'causal'\n"


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
        "src/precedes/protocols/__init__.py": DOCUMENTED,
        "src/precedes/protocols/vector.py": PROTOCOL + "from precedes import contract, parts\n",
        "src/precedes/protocols/vcube/__init__.py": PROTOCOL + "from . import state\n",
        "src/precedes/protocols/vcube/state.py": DOCUMENTED + "from .waiting import put\n",
        "src/precedes/parts/pool.py": DOCUMENTED + "from precedes.contract import DONE\n",
        "src/precedes/registry.py": DOCUMENTED + "import precedes.protocols.vector\n",
        "src/precedes/sim/run.py": DOCUMENTED + "from precedes import contract, registry\n",
        "src/precedes/sim/engine/loop.py": DOCUMENTED + "from . import queue\n",
        "src/precedes/live/group.py": DOCUMENTED + "from .net import links\n",
        "src/precedes/sim/runs.py": DOCUMENTED + "from precedes.trace import TraceWriter\n",
        "src/precedes/audit/witness.py": DOCUMENTED + "from precedes import compiled, trace\n",
        "src/precedes/model.py": DOCUMENTED
        + "import numpy as np\nimport pyarrow.parquet as pq\nfrom zlib import crc32 as checksum\n",
        "docs/protocols/vector.md": "# vector\n",
        "docs/protocols/vcube.md": "# vcube\n",
        "src/precedes_papers/rules.py": DOCUMENTED
        + "from precedes.pipeline import sweep\nfrom . import shown\n",
        "src/precedes/sim/engine/queue.py": DOCUMENTED,
        "tests/test_tidy.py": "",
        "tests/sim/engine/test_queue.py": "",
        "tests/protocols/vector/test_vector.py": "",
        "tests/mutants/test_vector_mutants.py": "",
    }
    assert plant(files) == []


IMPORT = "may not import precedes."
REGISTRY = "only the registry may import"
PURE = "is a function of its input"
# A line in a file of the package, and what is said of it.
LINES = [
    ("model.py", "from precedes import compiled", IMPORT),
    ("parts/clocks.py", "import precedes.registry", IMPORT),
    ("sim/run.py", "from precedes.trace import writer", IMPORT),
    ("sim/run.py", "from precedes import live", IMPORT),
    ("sim/run.py", "from precedes import simulate", IMPORT),
    ("sim/engine/loop.py", "from precedes.sim import scenario", IMPORT),
    ("sim/engine/loop.py", "from ..inputs import broadcasts", IMPORT),
    ("sim/engine/loop.py", "from precedes.parts import pool", IMPORT),
    ("live/group.py", "from ..sim import engine", IMPORT),
    ("live/group.py", "from precedes.audit import audit", IMPORT),
    ("live/net/links.py", "from ..member.node import Node", IMPORT),
    ("live/net/links.py", "from .. import group", IMPORT),
    ("live/member/node.py", "from precedes.live.driver import Driver", IMPORT),
    ("live/member/node.py", "from ..net import wire", IMPORT),
    ("trace/writer.py", "from precedes import compiled", IMPORT),
    ("audit/causal_order.py", "from precedes import contract", IMPORT),
    ("audit/causal_order.py", "from precedes.parts import clocks", IMPORT),
    ("audit/causal_order.py", "from .. import sim", IMPORT),
    ("pipeline/plan.py", "from precedes import live", IMPORT),
    ("pipeline/spark/session.py", "from ..plan import Plan", IMPORT),
    ("sim/run.py", "from precedes.protocols import vector", REGISTRY),
    ("cli/main.py", "import precedes.protocols.vector", REGISTRY),
    ("parts/pool.py", "from ..protocols.vector import State", REGISTRY),
    ("protocols/vcube/state.py", "from ..vector import State", "may not import another"),
    ("protocols/vcube/state.py", "import precedes.protocols.dcs", "may not import another"),
    ("protocols/vcube/state.py", "from precedes.protocols.vcube import waiting", "relatively"),
    ("protocols/vcube/state.py", "from precedes import sim", "protocols may not import"),
    *(
        ("sim/run.py", f"import {module}", "only ")
        for module in ("numba", "pyspark.sql", "socket", "asyncio", "precedes_papers.rules")
    ),
    ("protocols/vcube/state.py", "import time", PURE),
    ("sim/engine/loop.py", "from random import random", PURE),
    ("live/member/node.py", "import asyncio", PURE),
    ("audit/judge.py", "import os.path", PURE),
    ("model.py", "# Lines are let through ever more seldom.", "banned word: seldom"),
    ("model.py", "told = 1", "banned word: told"),
    ("model.py", "a_beside_b = 'what has Changed on the Way'", "banned word: beside"),
    ("model.py", "x = 'what has Changed on the Way'", "banned word: Changed on the Way"),
    ("model.py", "seat_floor = 1  # its ear", "banned word: seat"),
    ("model.py", "# Its receipt is no mistake.", "banned phrase: is no"),
    ("model.py", "# as many as were asked for", "banned phrase: as many as"),
    ("model.py", "def f(): 'Whether it is there.'", "docstring begins with Whether"),
    ("model.py", "def f(): ...", "f has no docstring"),
    ("model.py", "async def f(): ...", "f has no docstring"),
    ("model.py", "class C: ...", "C has no docstring"),
    ("model.py", "class C: 'A class.'; f = lambda: 0\nclass D: ...", "D has no docstring"),
]


@pytest.mark.parametrize(("file", "line", "what"), LINES)
def test_a_line_is_found(plant, file, line, what):
    """Wherever it stands: imports in functions count, too."""
    (finding,) = plant({f"src/precedes/{file}": f"{DOCUMENTED}\n{line}\n"})
    assert finding.startswith(f"src/precedes/{file}:")
    assert what in finding


NOTES = ("TO" + "DO", "fix" + "me", "X" + "XX")
FILES = {
    "src/precedes/misc.py": (DOCUMENTED, "misc has no place"),
    "src/precedes/model.py": ("", "module has no docstring"),
    "src/precedes/sim/run.py": (
        f"{DOCUMENTED}def late():\n    'Imports late.'\n    import numba\n", ":4: only ",
    ),
    "src/precedes/audit/report.py": (
        f"{DOCUMENTED}class C:\n    'A class.'\n    def f(self): ...\n", "f has no docstring",
    ),
    "src/precedes_papers/rules.py": (
        f"{DOCUMENTED}from precedes import live\n", ":2: precedes_papers may not import",
    ),
    **{f"docs/{one}.md": (f"Ready.\n{one}: not\n", f":2: left-over note: {one}") for one in NOTES},
    "docs/data.bin": ("x" * (tidy.FILE_BYTES_MAX + 1), ":1: file of 1000001 bytes"),
    "src/precedes/protocols/vector.py": (PROTOCOL, "docs/protocols/vector.md"),
    "src/precedes/protocols/helpers.py": (DOCUMENTED, ":1: no protocol, for it states no"),
    "src/precedes/protocols/more/__init__.py": (DOCUMENTED, ":1: no protocol, for it states no"),
    "tests/sim/queue/test_queue.py": ("", "there is no src/precedes/sim/queue to test"),
    "CHANGELOG.md": ("# Changelog\n\n## [0.1.0]\n", "CHANGELOG.md:1: no Unreleased section"),
    "tools/a.py": ("def\n", "tools/a.py:1: does not parse"),
}  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_found(plant, file):
    text, what = FILES[file]
    (finding,) = plant({file: text})
    assert what in finding


def test_long_function_is_found(plant):
    body = "def f():\n" + "    pass\n" * (tidy.FUNCTION_LINES_MAX - 1)
    assert plant({"bench/a.py": body}) == []
    (finding,) = plant({"bench/a.py": body + "    pass\n"})
    assert finding == "bench/a.py:1: f has 101 lines (max 100)"


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import json as j", "json"),
        ("import os.path as where", "os.path"),
        ("from tools import tidy as checks", "tools.tidy"),
        ("from precedes.sim import run as simulation", "precedes.sim.run"),
        ("from precedes import sim as simulation", "precedes.sim"),
    ],
)
def test_second_name_of_a_module_is_found(plant, line, module):
    files = {
        "src/precedes/sim/run.py": DOCUMENTED,
        "tools/tidy.py": "",
        "tests/test_run.py": f"{line}\n",
    }
    (finding,) = plant(files)
    assert finding == f"tests/test_run.py:1: module {module} is called {line.split()[-1]} here"


def test_second_name_of_a_module_nearby_is_found(plant):
    text = f"{DOCUMENTED}from . import state as words\n"
    files = {"src/precedes/sim/run.py": text, "src/precedes/sim/state.py": DOCUMENTED}
    (finding,) = plant(files)
    assert finding.endswith("module precedes.sim.state is called words here")


def test_private_names_need_no_docstring(plant):
    text = f"{DOCUMENTED}def _f(): ...\nclass _C:\n    def f(self): ...\n"
    assert plant({"src/precedes/model.py": text}) == []


COUNTED = f"""{DOCUMENTED}
import os
import json


def _helper():
    '''Not code.'''
    return '''two lines

    of text'''


def text():  # no code of its own
    'Nor is this.'
    return _helper() + os.sep
"""


def test_code_is_counted():
    row = {"code": 8, "files": 1, "functions": 2, "helpers": 1, "imports": 2}
    assert lines.counts(COUNTED) == row


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("audit/rows.py", "A = 1\nB = 2\nC = 3\n", "precedes/audit has 3 code lines (max 2)"),
        ("stores/address.py", "A = 1\n", "precedes/stores has 1 code lines (max 0)"),
        ("audit/rows.py", "", "precedes/audit have fallen to 0: python -m tools.lines --record"),
        ("sim/rows.py", "", "rows.py is the name of 2 files"),
        ("audit/state.py", "", None),
        ("audit/rows.py", "class Rows:\n    'All.'\n    A = 1\n", "Rows is mentioned by its own"),
        ("audit/rows.py", "class _Rows:\n    A = 1\n", None),
        ("audit/rows.py", "def run():\n    'In docs, too.'\n    return 1\n", None),
    ],
)
def test_numbers_may_only_fall(plant, tmp_path, monkeypatch, file, text, what):
    monkeypatch.setattr(tidy, "CODE_LINES_SLACK", 0)
    before = {"audit/rows.py": "A = 1\nB = 2\n", "sim/run.py": "A = 1\n", "sim/state.py": ""}
    assert plant({f"src/precedes/{name}": DOCUMENTED + code for name, code in before.items()}) == []
    plant({"docs/run.md": "`run()`\n", tidy.RATCHETS: ""})
    lines.main(["--record", str(tmp_path)])
    assert plant({}) == []
    found = "\n".join(plant({f"src/precedes/{file}": DOCUMENTED + text}))
    assert what in found if what else not found


def test_a_version_without_notes_is_found(plant):
    package = {"src/precedes/__init__.py": '"""It."""\n\n__version__ = "0.2.0"\n'}
    notes = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0]\n\n## [0.1.0]\n"
    assert plant({**package, "CHANGELOG.md": notes}) == []
    for wrong in (notes.replace("## [0.2.0]", "## [0.2.1]"), notes.partition("## [0.2")[0]):
        (finding,) = plant({**package, "CHANGELOG.md": wrong})
        assert finding == "CHANGELOG.md:1: the newest release is not 0.2.0"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_only_files_that_git_would_take_are_read(plant, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert plant({".gitignore": "ignored.md\n", "ignored.md": "TO" + "DO\n"}) == []
    (finding,) = plant({"seen.md": "TO" + "DO\n"})
    assert finding.startswith("seen.md:1: ")


def test_command_exits_1_on_findings(plant, tmp_path):
    plant({"src/precedes/model.py": ""})
    done = python(ROOT / "tools/tidy.py", tmp_path)
    assert done.returncode == 1
    assert done.stdout == "src/precedes/model.py:1: module has no docstring\n"
