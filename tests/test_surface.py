"""The public names: these names of these modules, and no others."""

import ast
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import precedes
from precedes import UserError
from precedes.cli.main import main
from tests.support.places import ROOT

PUBLIC = {
    "precedes": """
        Comparison Diagram EventHandler Fault InternalError PeerError PrecedesError ProgressBar
        Result Scenario UserError audit compare from_arrow from_pandas load simulate view
    """,
    "precedes.audit": """
        Finding HELD Report Reports Standing Step UNKNOWN VIOLATED Verdict Witness audit check_views
        follow to_json to_text
    """,
    "precedes.live": """
        Batch Config Event Excluded Group GroupClosed GroupLost Message Missing Replaced Security
        SlowMember State StateError ViewChange WouldBlock from_toml make_keys
    """,
    "precedes.pipeline": """
        Experiment Sweep audit_files audit_tables from_file open_session open_tables read_events
        read_traces run_experiments run_sweep
    """,
    "precedes.spark": """
        audit_giant causal_audit causal_audit_stream causal_violations register
    """,
    "precedes.testing": """
        Breach Collector Conformance Failure Kind Observed assert_conforms check_agreement
        check_same check_scenario conformance observe random_scenario
    """,
    "precedes.trace": """
        Dialect EVENTS EventHandler FORMATS History Notes SCHEMA SCHEMA_VERSION TraceWriter
        event_batches from_arrow from_pandas join load read_members read_metadata read_trace
    """,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_module_offers_these_names(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    if hasattr(module, "_HOMES"):
        assert sorted(module._HOMES) == dir(module) == sorted(module.__all__), "not all is listed"
    for public in module.__all__:
        assert getattr(module, public) is not None


@pytest.mark.parametrize("before", ["", "import precedes.audit; ", "import precedes.cli.main; "])
def test_the_audit_is_a_package_that_can_be_called(before):
    """Whatever was imported before: a function and a package of one name would hide each other."""
    code = (
        f"{before}import precedes; print(precedes.audit('examples/chat.jsonl').verdict); "
        "from precedes.audit import follow; print(precedes.audit.follow is follow)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "violated\nTrue\n", done.stderr


def test_the_package_has_the_signature_of_its_function():
    function = precedes.audit.audit
    assert inspect.signature(precedes.audit) == inspect.signature(function)


def test_no_other_name_is_that_of_a_module():
    for name in set(precedes.__all__) - {"audit"}:
        assert importlib.util.find_spec(f"precedes.{name}") is None


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_lists_public_names(name):
    module = importlib.import_module(name)
    if hasattr(module, "_HOMES"):
        public = [one for one in dir(module) if not one.startswith("__")]
        assert public == sorted(module.__all__)


# Pages show the commands that made them.
PAGES = ("cli/", "comparison/page", "share/", "viewer/page")
# What writes command lines: for Spark and Java, and such as repeat a run.
COMMANDS = {
    "console.py",
    "pipeline/spark/daemons.py",
    "pipeline/spark/java.py",
    "pipeline/sweep.py",
    "stores/filesystems.py",
    "testing/__main__.py",
    "testing/conformance.py",
}


def texts_with_options(path):
    """Texts of a module, but for docstrings, that name an option of a command."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (
            is_text
            and node not in docstrings
            and re.search(r"(^|[^\w-])(?<!var\()--[a-z]", node.value)
        ):
            yield f"{path.name}:{node.lineno}: {node.value}"


def test_what_python_calls_speaks_of_arguments_not_of_options():
    package = ROOT / "src/precedes"
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package).as_posix()
        if not place.startswith(PAGES) and place not in COMMANDS:
            found += texts_with_options(path)
    assert found == []


def test_a_text_with_an_option_would_be_found(tmp_path):
    (tmp_path / "some.py").write_text('"""With --this."""\nraise UserError("leave out --work")\n')
    assert list(texts_with_options(tmp_path / "some.py")) == ["some.py:2: leave out --work"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["audit", "--fresh", "examples/chat.jsonl"], "--fresh requires --work\n"),
        (["audit", "--columns", "x=y", "examples/chat.jsonl"], "--columns names 'x': "),
        (["size", "--rate", "5", "--nodes", "5"], "give --error for a size, or --entries"),
    ],
)
def test_a_command_speaks_of_its_options(line, text, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(line) == 2
    assert text in capsys.readouterr().err


def test_a_mistake_of_a_user_is_one_line():
    assert str(UserError("no file 'a\nb'")) == "no file 'a b'"
