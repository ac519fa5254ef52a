"""``precedes compile``: what is in the cache afterwards, and what is said."""

import json
import signal
import subprocess
import tempfile

import pytest

from precedes import compiled
from precedes.audit import compiling
from precedes.cli import compile
from precedes.cli.main import main
from precedes.compiled import tiers
from precedes.compiled.compiler import Code, Item
from tests.support import commands, compilers, small_loop
from tests.support.processes import await_true, is_running
from tests.support.signals import enable_interrupts


@pytest.fixture
def items(monkeypatch, empty_cache):
    """The list of compilations, and an empty cache."""
    found = []
    monkeypatch.setattr(compile, "_items", lambda names: iter(found))
    return found


def small(name="a loop", subject="", *, is_there=False):
    """A loop that compiles in a moment, in place of an engine."""
    return Item(name, (small_loop.code(subject),)), is_there


def test_what_is_compiled_is_left_alone_afterwards(items, capsys):
    items.append(small())
    assert main(["compile", "--jobs", "1"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("a loop: compiled in ")
    assert error == ""
    (kept,) = compiled.cache_root().rglob("*.nbc")
    before = kept.stat()
    items[:] = [small(is_there=True)]
    assert main(["compile"]) == 0
    assert capsys.readouterr().out == "a loop: in the cache\n"
    assert kept.stat() == before


def test_for_programs(items, capsys):
    """One object in the end, whatever came of each; what does not compile stops no other."""
    items += [small("broken", "broken"), small(), (Item("mobile", ()), True)]
    assert main(["compile", "--jobs", "1", "--json"]) == 3
    out, error = capsys.readouterr()
    assert error.startswith("precedes: broken: ")
    assert error.count("\n") == 1
    reported = json.loads(out)
    assert reported["cache"] == str(compiled.cache_root())
    rows = {row["name"]: row for row in reported["compiled"]}
    assert rows["broken"]["status"] == "failed"
    assert "no_such_thing" in rows["broken"]["failure"]
    assert rows["a loop"]["status"] == "compiled"
    assert rows["a loop"]["seconds"] >= 0
    assert rows["mobile"] == {
        "name": "mobile", "status": "plain Python, nothing to compile", "seconds": None,
        "failure": None,
    }  # fmt: skip


def test_what_failed_is_tried_again(items, capsys, monkeypatch):
    items.append(small(subject="failing"))
    assert main(["compile"]) == 3
    items[:] = [small(subject="failing")]
    assert main(["compile"]) == 3
    assert len(compilers.started(compiled.cache_root())) == 1, "the log is that of the last"
    assert capsys.readouterr().err.count("it does not compile") == 2


def test_a_cache_that_keeps_nothing(items, capsys, tmp_path, monkeypatch):
    """Code in another directory is not where an image needs it."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "file" / "cache"))
    items.append(small())
    assert main(["compile"]) == 2
    assert "does not keep it" in capsys.readouterr().err


def test_never_more_at_a_time_than_jobs(items, capsys, monkeypatch):
    begun, over = [], []

    class Counted(Code):
        """Made at the second look."""

        def is_cached(self):
            return self in over

        def begin(self, **_):
            if self in begun:
                over.append(self)
            else:
                begun.append(self)
            assert len(set(begun) - set(over)) <= 2

        def files(self):
            return frozenset([(compiled.cache_root() / "file", 0)])

    for number in range(5):
        code = Counted(small_loop.entry_of(""), None, small_loop.OWN)
        items.append((Item(str(number), (code,)), False))
    assert main(["compile", "--jobs", "2"]) == 0
    assert capsys.readouterr().out.count("compiled in") == 5


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["no_such"], "there is no protocol 'no_such'"),
        (["none.py"], "there is no protocol file"),
        (["--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_mistakes(line, text, capsys):
    assert main(["compile", *line]) == 2
    assert text in capsys.readouterr().err


def test_an_interrupt_leaves_no_compiler(empty_cache):
    """Nor a lock: what it had begun can be begun again."""
    with subprocess.Popen(
        commands.command("compile", "unordered", "--jobs", "2"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=enable_interrupts,
    ) as process:  # fmt: skip
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        found = []
        while len(found) < 2 and process.poll() is None:
            with open(children) as file:
                found = file.read().split()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "precedes: interrupted; nothing was left half-written\n"
    for child in found:
        await_true(lambda child=child: not is_running(child))


def test_what_there_is_to_compile(empty_cache):
    *found, (plain, _) = compile._items(["vector", "mobile"])
    names = [item.name for item, _ in found]
    assert names == ["the audit", "vector, simulated", "vector, live"]
    assert plain == ("mobile", ())
    assert not any(is_there for _, is_there in found)


def test_the_audit_that_compiles_uses_every_loop(monkeypatch):
    """All that the package has, found by their modules; none is compiled here."""
    used = set()
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    for name in ("judge", "order", "pasts", "table", "growing.auditor"):
        monkeypatch.setattr(
            f"precedes.audit.{name}.paced",
            lambda entry, *, rows=0: used.add(entry) or tiers.paced(entry, rows=rows),
        )
    compiling.work("").compile()
    assert used == set(compiling.LOOPS)
