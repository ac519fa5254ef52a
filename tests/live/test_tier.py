"""Members that begin interpreted: at once, without blocking their loop, and with an end.

What changes to compiled code in any turn leaves the same bytes: ``member/test_tiers.py``.
"""

import asyncio
import contextlib
import logging
import tempfile
import threading

import pytest

from precedes import compiled, waiting
from precedes.compiled import compiler
from precedes.compiled.compiler import Code
from precedes.compiled.entry import Entry
from precedes.errors import InternalError
from precedes.live import Group, tier
from precedes.live.member import node, step
from precedes.live.member.node import Node, Settings
from tests.support import compilers
from tests.support.groups import configs, exposed, group_of, listeners, run, take, until
from tests.support.processes import await_true
from tests.support.warm import LIVE

PROTOCOL = "vector"


@pytest.fixture(scope="module")
def live_root():
    """Directory of the session's compiled code, before a test has a cache of its own."""
    return compiled.cache_root()


@pytest.fixture
def empty(monkeypatch, live_root, empty_cache):
    """A cache with nothing in it, and compilers that take code from a warm one."""
    monkeypatch.setenv("WARM_CACHE", str(live_root))
    monkeypatch.delenv("PRECEDES_TIER", raising=False)
    monkeypatch.setattr(step.ENTRY, "_dispatchers", {})  # as in a new process
    for kind in compiler.OF_PROTOCOLS:
        monkeypatch.setitem(compiler.RECIPES, kind, f"tests.support.small_loop:{kind}")
    return empty_cache


@pytest.fixture
def threads(monkeypatch):
    """Threads of slow calls: (name of the call, thread)."""
    found = []

    def note(kind, name):
        made = getattr(kind, name)

        def noted(self, *arguments, **more):
            found.append((name, threading.current_thread()))
            return made(self, *arguments, **more)

        monkeypatch.setattr(kind, name, noted)

    for kind, name in ((Code, "begin"), (Code, "load"), (Entry, "prepare")):
        note(kind, name)
    return found


def reported(monkeypatch, recipe):
    """Have compilers do something else."""
    monkeypatch.setitem(compiler.RECIPES, "live", f"tests.support.small_loop:{recipe}")


def code_of(protocol=PROTOCOL):
    return Node(Settings(member=0, members=2, protocol=protocol)).code


def test_an_empty_cache_delays_nobody(empty, monkeypatch):
    """Messages are there while a compiler works."""
    reported(monkeypatch, "endless")

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await one.broadcast(b"first")
            assert [message.payload for message in await take(other, 1)] == [b"first"]
            assert (one.tier, other.tier) == ("interpreted", "interpreted")
            assert "precedes_compiled{" in exposed(one)
            await until(code_of().is_being_made)

    run(main())
    assert code_of().is_being_made(), "it survives the group, for the next one"
    await_true(lambda: len(compilers.started(empty)) == 1)


@pytest.mark.parametrize("protocol", [PROTOCOL, "hashed"])
def test_members_go_on_compiled(protocol, live, empty, threads, monkeypatch):
    """While they work, and their loop never waits: compiled by a process, loaded by threads."""
    # A compiler lets others go first.
    monkeypatch.setattr("tests.support.groups.LIMIT_S", 600.0)
    payloads = []
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1

    async def main():
        beating = asyncio.create_task(beat())
        async with group_of(2, tier="auto", protocol=protocol) as (one, other):
            other.on_message(lambda message: payloads.append(message.payload))
            before, sent = beats, 0
            while (one.tier, other.tier) != ("compiled", "compiled"):
                await one.broadcast(b"%d" % sent)
                sent += 1
                await asyncio.sleep(0.05)
            assert beats - before > sent, "others have their turn while the step is made"
            await one.broadcast(b"%d" % sent)
            await until(lambda: len(payloads) > sent)
        beating.cancel()
        assert payloads == [b"%d" % number for number in range(sent + 1)]

    run(main())
    assert {what for what, _ in threads} == {"begin", "load"}, "nothing is compiled here"
    assert all(thread is not threading.main_thread() for _, thread in threads)
    # And who comes later loads it before it listens.
    threads.clear()

    async def later():
        async with group_of(2, tier="auto", protocol=protocol) as groups:
            assert [group.tier for group in groups] == ["compiled", "compiled"]

    run(later())
    assert [what for what, _ in threads] == ["load", "load"]
    assert all(thread is not threading.main_thread() for _, thread in threads)


def test_who_waits_for_a_compiler(live, empty, monkeypatch, capsys):
    """With tier = "compiled" nobody hears of the member before it is."""
    monkeypatch.setattr(waiting, "_printed", set())

    async def main():
        async with group_of(2, tier="compiled", protocol=PROTOCOL) as groups:
            assert [group.tier for group in groups] == ["compiled", "compiled"]

    run(main())
    assert capsys.readouterr().err.startswith("precedes: compiling a live member for first use")


@pytest.mark.parametrize("end", ["cancelled", "no compiler"])
def test_who_waits_in_vain(end, empty, monkeypatch):
    reported(monkeypatch, "endless" if end == "cancelled" else "failing")

    async def main():
        socks = listeners(2)
        config = configs(socks, tier="compiled", protocol=PROTOCOL)[0]
        group = Group.open(config, listener=socks[0])
        entering = asyncio.create_task(group.__aenter__())
        if end == "cancelled":
            await until(code_of().is_being_made)
            assert group.missing_links() == [1]
            assert not entering.done()
            entering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await entering
            assert entering.cancelled()
        else:
            with pytest.raises(InternalError, match="it does not compile"):
                await entering
        for sock in socks:
            sock.close()

    run(main())


def test_a_step_that_cannot_be_compiled_stays_interpreted(empty, monkeypatch, caplog):
    reported(monkeypatch, "failing")

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await until(lambda: caplog.text.count("stays interpreted, which is slow") == 2)
            await one.broadcast(b"still here")
            assert [message.payload for message in await take(other, 1)] == [b"still here"]
            assert one.tier == "interpreted"

    with caplog.at_level(logging.WARNING, "precedes.live"):
        run(main())
    assert "it does not compile" in caplog.text


def test_a_member_that_is_to_stay_interpreted_says_so(empty, caplog):
    async def main():
        async with group_of(2, tier="interpreted", protocol=PROTOCOL):
            await until(lambda: caplog.text.count("stays interpreted, as its tier") == 2)

    with caplog.at_level(logging.INFO, "precedes.live"):
        run(main())
    assert not code_of().is_being_made()


def test_code_that_can_be_kept_nowhere_is_not_compiled_here(
    empty, threads, monkeypatch, caplog, tmp_path
):
    """A thread that compiles could not be ended with the group."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "file" / "cache"))

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await until(
                lambda: caplog.text.count("no directory for compiled code is writable") == 2
            )
            await one.broadcast(b"still here")
            assert [message.payload for message in await take(other, 1)] == [b"still here"]

    with caplog.at_level(logging.WARNING, "precedes.live"):
        run(main())
    assert {what for what, _ in threads} == {"load", "begin"}


def test_what_is_not_cached_is_not_loaded_on_the_loop(empty, threads, monkeypatch):
    """The twin: a group that prepares its node on the loop, as one would, is seen."""
    reported(monkeypatch, "endless")

    async def prepare(self):
        self._node.load()

    monkeypatch.setattr(tier.Tier, "prepare", prepare)

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL):
            pass

    run(main())
    assert ("load", threading.main_thread()) in threads


@pytest.mark.parametrize("protocol", LIVE)
def test_what_a_compiler_is_reported_fits_every_member(protocol, live):
    """Groups of any size, with and without a log, have arrays of the same types."""
    work = node.work(protocol)
    assert compiler.RECIPES["live"] == "precedes.live.member.node:work"
    for members in (3, 300):
        other = Node(Settings(member=1, members=members, protocol=protocol), recording=True)
        arguments = other.member, other.state
        assert work.code(protocol).load(*arguments) is not None
