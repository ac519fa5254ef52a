"""What users may import: these names of these modules, and nothing else."""

import ast
import importlib
import re

import pytest

from precedes import UserError
from precedes.cli.main import main
from tests.support.places import ROOT

PUBLIC = {
    "precedes": """
        Comparison Diagram EventHandler Fault InternalError PeerError PrecedesError ProgressBar
        Result Scenario UserError compare from_arrow from_pandas load simulate view
    """,
    "precedes.audit": """
        HELD Report Reports Standing Step UNKNOWN VIOLATED Witness audit follow to_json to_text
    """,
    "precedes.live": """
        Batch Config Event Evicted Group GroupClosed GroupLost Message Missing Security SlowMember
        WouldBlock from_toml make_keys
    """,
    "precedes.pipeline": """
        Experiment Sweep audit_events audit_files audit_tables follow_stream from_file open_session
        open_stream open_tables read_events read_traces register_source run_experiments run_sweep
    """,
    "precedes.testing": """
        Breach Collector Conformance Failure Kind Observed assert_conforms check_agreement
        check_same check_scenario conformance observe random_scenario
    """,
    "precedes.trace": """
        Dialect EVENTS EventHandler FORMATS Found History SCHEMA SCHEMA_VERSION TraceWriter
        event_batches from_arrow from_pandas join load read_members read_metadata read_trace
    """,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_module_offers_these_names(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    homes = getattr(module, "_HOMES", module.__all__)
    assert sorted(homes) == sorted(module.__all__), "not all that can be imported is listed"
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_no_function_hides_a_module():
    """``precedes.audit`` is a module, whatever was imported before; its function is in there."""
    import precedes
    import precedes.audit

    assert precedes.audit.audit.__module__.startswith("precedes.audit.")
    for name in precedes.__all__:
        assert importlib.util.find_spec(f"precedes.{name}") is None


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
        (["simulate", "vector", "--nodes", "5"], "with --messages or --duration\n"),
        (["audit", "--fresh", "examples/chat.jsonl"], "without --work\n"),
        (["audit", "--columns", "x=y", "examples/chat.jsonl"], "--columns names 'x': "),
        (["size", "--rate", "5", "--nodes", "5"], "look for: --error for a size, or --entries"),
    ],
)
def test_a_command_speaks_of_its_options(line, text, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(line) == 2
    assert text in capsys.readouterr().err


def test_a_mistake_of_a_user_is_one_line():
    assert str(UserError("no file 'a\nb'")) == "no file 'a b'"
