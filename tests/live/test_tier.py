"""Members that begin interpreted: at once, without blocking their loop, and with an end.

What goes on compiled in any turn leaves the same bytes: ``member/test_tiers.py``.
"""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from precedes import compiled, waiting
from precedes.compiled.entry import Entry
from precedes.compiled.tiers import Compilation
from precedes.errors import InternalError, UserError
from precedes.live import Group, tier
from precedes.live.member import node, step
from precedes.live.member.node import Node, Settings
from tests.support import recipes
from tests.support.groups import configs, exposed, group_of, listeners, run, take, until
from tests.support.places import ROOT
from tests.support.warm import LIVE

PROTOCOL = "vector"


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A cache with nothing in it, and members that want a compiler with their first step."""
    monkeypatch.setenv(recipes.WARM, str(compiled.cache_root()))
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PRECEDES_TIER", raising=False)
    monkeypatch.setattr(tier, "BUSY_NS", 0)


@pytest.fixture
def threads(monkeypatch):
    """Which threads did what takes a while: (what, thread)."""
    found = []

    def note(kind, name):
        made = getattr(kind, name)

        def noted(self, *arguments, **more):
            found.append((name, threading.current_thread()))
            return made(self, *arguments, **more)

        monkeypatch.setattr(kind, name, noted)

    for kind, name in ((Compilation, "begin"), (Compilation, "load"), (Entry, "compile")):
        note(kind, name)
    return found


def told(monkeypatch, recipe):
    """Have compilers do something else."""
    monkeypatch.setattr(node, "RECIPE", f"tests.support.recipes:{recipe}")


def compilation():
    return Node(Settings(member=0, members=2, protocol=PROTOCOL)).compilation


def is_running(process):
    """Whether a process is there and no zombie: orphans are reaped when their new parent likes."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def loading():
    return [thread for thread in threading.enumerate() if thread.name == tier.THREAD]


async def compiler():
    """The process id of the compiler, as soon as there is one."""
    await until(lambda: compilation().process_id is not None)
    return compilation().process_id


def test_an_empty_cache_delays_nobody(empty, threads, monkeypatch):
    """The first messages are there before anybody has thought of a compiler."""
    monkeypatch.setattr(tier, "BUSY_NS", 1 << 60)

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await one.broadcast(b"first")
            assert [message.payload for message in await take(other, 1)] == [b"first"]
            assert (one.tier, other.tier) == ("interpreted", "interpreted")
            assert "precedes_compiled{" in exposed(one)
            assert not compilation().is_begun

    run(main())
    assert threads == []


def test_a_member_that_lives_wants_a_compiler(empty, monkeypatch):
    """However little it does."""
    monkeypatch.setattr(tier, "BUSY_NS", 1 << 60)
    monkeypatch.setattr(tier, "LIVES_S", 0.05)
    told(monkeypatch, "endless")

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL):
            await compiler()

    run(main())


@pytest.mark.parametrize(
    ("protocol", "recipe"),
    [
        (PROTOCOL, "tests.support.recipes:copied"),
        pytest.param("unordered", node.RECIPE, marks=pytest.mark.swarm),
    ],
)
def test_members_go_on_compiled(protocol, recipe, live, empty, threads, monkeypatch):
    """While they work, and their loop never waits: compiled by a process, loaded by threads."""
    monkeypatch.setattr(node, "RECIPE", recipe)
    # A compiler lets others go first.
    monkeypatch.setattr("tests.support.groups.LIMIT_S", 600.0)
    monkeypatch.setattr(step.ENTRY, "_dispatchers", {})  # as in a new process
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
    assert {what for what, _ in threads} == {"begin", "load"}
    assert all(thread is not threading.main_thread() for _, thread in threads)
    assert loading() == []
    # And who comes later loads it before it listens.
    threads.clear()

    async def later():
        async with group_of(2, tier="auto", protocol=protocol) as groups:
            assert [group.tier for group in groups] == ["compiled", "compiled"]

    run(later())
    assert [what for what, _ in threads] == ["load", "load"]
    assert all(thread is not threading.main_thread() for _, thread in threads)


def test_a_compiler_ends_with_the_last_who_wants_it(empty, monkeypatch):
    told(monkeypatch, "endless")

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            begun = await compiler()
            await one.__aexit__(RuntimeError, RuntimeError("enough"), None)
            await asyncio.sleep(0.2)
            assert compilation().process_id == begun, "the other still waits for it"
            assert is_running(begun)
            await other.__aexit__(RuntimeError, RuntimeError("enough"), None)
            assert not is_running(begun)
            assert not compilation().is_begun

    run(main())
    assert loading() == []


ANOTHER_PROCESS = """
import asyncio
from precedes.live import tier
from precedes.live.member import node
from tests.live.test_tier import PROTOCOL, compiler
from tests.support.groups import group_of

async def main():
    async with group_of(2, tier="auto", protocol=PROTOCOL):
        print(await compiler(), flush=True)
        await asyncio.sleep(600)

tier.BUSY_NS = 0
node.RECIPE = "tests.support.recipes:endless"
asyncio.run(main())
"""


def test_a_member_that_is_killed_takes_its_compiler_along(empty, monkeypatch):
    """And another process that waits for it starts one of its own."""
    told(monkeypatch, "endless")
    command = [sys.executable, "-c", ANOTHER_PROCESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            theirs = int(process.stdout.readline())

            async def main():
                async with group_of(2, tier="auto", protocol=PROTOCOL):
                    await until(lambda: compilation().is_begun)
                    assert compilation().process_id is None, "one compiler is enough"
                    process.kill()
                    ours = await compiler()
                    assert not is_running(theirs)
                assert not is_running(ours)

            run(main())
        finally:
            process.kill()


@pytest.mark.parametrize("end", ["cancelled", "no compiler"])
def test_who_waits_for_a_compiler_leaves_none_behind(end, empty, monkeypatch, capsys):
    """With tier = "compiled" nobody hears of the member before it is."""
    monkeypatch.setattr(waiting, "_told", set())
    told(monkeypatch, "endless" if end == "cancelled" else "failing")

    async def main():
        socks = listeners(2)
        config = configs(socks, tier="compiled", protocol=PROTOCOL)[0]
        group = Group.open(config, listener=socks[0])
        entering = asyncio.create_task(group.__aenter__())
        if end == "cancelled":
            begun = await compiler()
            assert group.missing_links() == [1]
            assert not entering.done()
            entering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await entering
            assert entering.cancelled()
            assert not is_running(begun)
        else:
            with pytest.raises(InternalError, match=f"{PROTOCOL} cannot be compiled"):
                await entering
        assert not compilation().is_begun
        for sock in socks:
            sock.close()

    run(main())
    assert capsys.readouterr().err.startswith("precedes: compiling a live member for first use")
    assert loading() == []


def test_a_group_that_cannot_begin_leaves_no_compiler_behind(empty, monkeypatch):
    """The other member never comes."""
    told(monkeypatch, "endless")
    monkeypatch.setattr(tier, "LIVES_S", 0.05)

    async def main():
        socks = listeners(2)
        config = configs(socks, tier="auto", protocol=PROTOCOL)[0]
        group = Group.open(config, listener=socks[0])
        entering = asyncio.create_task(group.__aenter__())
        begun = await compiler()
        entering.cancel()
        await asyncio.wait([entering])
        assert entering.cancelled()
        assert not is_running(begun)
        socks[1].close()

    run(main())


def test_a_step_that_cannot_be_compiled_stays_interpreted(empty, monkeypatch, caplog):
    told(monkeypatch, "failing")

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await until(lambda: compilation().failure is not None)
            await one.broadcast(b"still here")
            assert [message.payload for message in await take(other, 1)] == [b"still here"]
            await until(lambda: "stays interpreted" in caplog.text)
            assert one.tier == "interpreted"

    with caplog.at_level(logging.WARNING, "precedes.live"):
        run(main())
    assert f"{PROTOCOL} cannot be compiled" in caplog.text


def test_a_member_that_is_to_stay_interpreted_says_so(caplog):
    async def main():
        async with group_of(2, tier="interpreted", protocol=PROTOCOL):
            await until(lambda: caplog.text.count("stays interpreted, as its tier") == 2)

    with caplog.at_level(logging.INFO, "precedes.live"):
        run(main())


def test_code_that_can_be_kept_nowhere_is_not_compiled_here(empty, threads, monkeypatch, caplog):
    """A thread that compiles could not be ended with the group."""
    monkeypatch.setattr(Compilation, "_find_place", lambda self: None)

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL) as (one, other):
            await until(lambda: caplog.text.count("can be kept nowhere") == 2)
            await one.broadcast(b"still here")
            assert [message.payload for message in await take(other, 1)] == [b"still here"]

    with caplog.at_level(logging.WARNING, "precedes.live"):
        run(main())
    assert {what for what, _ in threads} == {"begin"}


def test_what_is_not_cached_is_not_loaded_on_the_loop(empty, threads, monkeypatch):
    """The twin: a group that prepares its node on the loop, as one would, is seen."""

    async def prepare(self):
        self._node.load()

    monkeypatch.setattr(tier.Tier, "prepare", prepare)

    async def main():
        async with group_of(2, tier="auto", protocol=PROTOCOL):
            pass

    run(main())
    assert ("load", threading.main_thread()) in threads


@pytest.mark.parametrize("protocol", LIVE)
def test_what_a_compiler_is_told_fits_every_member(protocol, live):
    """Groups of any size, with and without a log, have arrays of the same types."""
    work = node.work(protocol)
    assert node.RECIPE == "precedes.live.member.node:work"
    for members in (3, 300):
        other = Node(Settings(member=1, members=members, protocol=protocol), recording=True)
        arguments = other.member, other.state
        directory = work.entry.directory(work.key, work.own)
        assert step.ENTRY.load(work.key, work.own, arguments, directory) is not None


def test_a_tier_that_there_is_not_is_refused(monkeypatch):
    socks = listeners(2)
    with pytest.raises(UserError, match="tier must be one of auto, compiled, interpreted"):
        configs(socks, tier="fast")
    monkeypatch.setenv("PRECEDES_TIER", "fast")
    with pytest.raises(UserError, match="PRECEDES_TIER must be one of"):
        configs(socks, tier="auto")
    for sock in socks:
        sock.close()
