"""``precedes compile``: what is in the cache afterwards, and what is said."""

import json
import os
import signal
import subprocess

import pytest

from precedes import compiled
from precedes.audit import compiling
from precedes.cli import compile
from precedes.cli.main import main
from precedes.compiled import paced
from tests.support import commands, small_loop
from tests.support.processes import await_true, is_running
from tests.support.signals import heed_interrupts


class Small:
    """A loop that compiles in a moment, in place of an engine."""

    def __init__(self, recipe="work", subject="", **settings):
        self._code = small_loop.compilation(recipe, subject, **settings)
        self.begin, self.is_ready, self.end = (
            self._code.begin, self._code.is_ready, self._code.end,
        )  # fmt: skip

    @property
    def failure(self):
        return self._code.failure

    def is_there(self):
        return self._code.is_cached()


@pytest.fixture
def items(monkeypatch, tmp_path):
    """What there is to compile, and a cache with nothing in it."""
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    found = []
    monkeypatch.setattr(compile, "_items", lambda names: iter(found))
    return found


def test_what_is_compiled_is_left_alone_afterwards(items, capsys):
    items.append(compile.Item("a loop", Small()))
    assert main(["compile", "--jobs", "1"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("a loop: compiled in ")
    assert error == ""
    (kept,) = compiled.cache_root().rglob("*.nbc")
    before = kept.stat()
    items[:] = [compile.Item("a loop", Small())]
    assert main(["compile"]) == 0
    assert capsys.readouterr().out == "a loop: in the cache\n"
    assert kept.stat() == before


class Counted:
    """What is made at the first look; ``now`` has what is being made."""

    failure = None

    def __init__(self, name="", now=None, is_kept=True):
        self.name, self.is_kept = name, is_kept
        self.now = set() if now is None else now
        self.is_made = False

    def is_there(self):
        return self.is_made and self.is_kept

    def begin(self):
        self.now.add(self.name)

    def is_ready(self):
        self.is_made = True
        self.now.discard(self.name)
        return True

    def end(self):
        raise AssertionError


def test_what_does_not_compile(items, capsys):
    """The others are compiled all the same."""
    items.append(compile.Item("broken", Small("no_such_recipe")))
    items.append(compile.Item("a loop", Counted()))
    assert main(["compile", "--jobs", "1"]) == 3
    out, error = capsys.readouterr()
    assert out == "a loop: compiled in 0 s\n"
    assert error.startswith("precedes: broken: ")
    assert error.count("\n") == 1


def test_a_cache_that_keeps_nothing(items, capsys):
    items.append(compile.Item("a loop", Counted(is_kept=False)))
    assert main(["compile"]) == 2
    assert "does not keep it" in capsys.readouterr().err


def test_never_more_at_a_time_than_jobs(items, capsys):
    most = []

    class Noted(set):
        def add(self, name):
            super().add(name)
            most.append(len(self))

    now = Noted()
    items += [compile.Item(str(number), Counted(number, now)) for number in range(5)]
    assert main(["compile", "--jobs", "2"]) == 0
    assert max(most) == 2
    assert capsys.readouterr().out.count("compiled in") == 5


def test_for_programs(items, capsys):
    """One object in the end, whatever came of each."""
    items.append(compile.Item("broken", Small("no_such_recipe")))
    items.append(compile.Item("a loop", Counted()))
    items.append(compile.Item("mobile", None))
    assert main(["compile", "--jobs", "1", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["cache"] == str(compiled.cache_root())
    rows = {row["name"]: row for row in told["compiled"]}
    assert rows["broken"]["status"] == "failed"
    assert rows["broken"]["failure"]
    assert rows["a loop"]["status"] == "compiled"
    assert rows["a loop"]["seconds"] >= 0
    assert rows["mobile"] == {
        "name": "mobile", "status": "plain Python, nothing to compile", "seconds": None,
        "failure": None,
    }  # fmt: skip


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


def test_an_interrupt_leaves_no_compiler(tmp_path):
    """Nor a lock: what it had begun can be begun again."""
    environment = {**os.environ, "PRECEDES_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(
        commands.command("compile", "unordered", "--jobs", "2"),
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=heed_interrupts,
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


def test_what_there_is_to_compile(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    *found, plain = compile._items(["vector", "mobile"])
    assert [item.name for item in found] == ["the audit", "vector, simulated", "vector, live"]
    assert plain == ("mobile", None)
    assert not any(item.code.is_there() for item in compile._items(["vector"]))


def test_the_audit_that_compiles_uses_every_loop(monkeypatch):
    """All that the package has, found by their modules; none is compiled here."""
    used = set()
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    for name in ("cycles", "hear", "judge", "order", "table", "growing.auditor"):
        monkeypatch.setattr(
            f"precedes.audit.{name}.paced",
            lambda entry, *, rows=0: used.add(entry) or paced.paced(entry, rows=rows),
        )
    compiling.work("").compile()
    assert used == set(compiling.LOOPS)
