"""Compilers beside interpreted code: one at a time, for who waits for it, and never left behind."""

import contextlib
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from precedes import compiled
from precedes.compiled import tiers
from precedes.errors import UserError
from precedes.files import is_alive
from tests.support import small_loop
from tests.support.places import ROOT
from tests.support.processes import await_true, is_running
from tests.support.signals import heed_interrupts

# A process that has a compiler, and says which.
PARENT = """
import os, sys, time
from tests.support import small_loop
code = small_loop.compilation("held", sys.argv[1])
code.begin()
print(code.process_id, flush=True)
"""
POLLS = "small_loop.await_ready(code); print(code.is_cached())"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A cache of the test's own, with nothing in it."""
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A cache that has the loop: what takes seconds is done once."""
    place = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECEDES_CACHE", str(place))
        code = small_loop.work("")
        code.compile()
    return place


@pytest.fixture
def warm(compiled_once, monkeypatch):
    """Compilers take what is compiled already, for tests of all but the compiling."""
    monkeypatch.setenv("WARM_CACHE", str(compiled_once))


@pytest.fixture
def parents():
    """Starts processes; kills them in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda *line, **settings: start(stack, *line, **settings)


def start(stack, code, *arguments, **settings):
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            preexec_fn=heed_interrupts, **settings,
        )
    )  # fmt: skip
    stack.callback(process.kill)
    return process


def check(body):
    """The compiled loop does what the plain one does."""
    numbers, plain = np.arange(5), np.arange(5)
    assert (body(numbers), numbers.tolist()) == (small_loop.double(plain), plain.tolist())


def test_compiled_beside_the_process_that_asks():
    code = small_loop.compilation()
    assert not code.is_cached()
    assert not code.is_ready(), "nobody has asked for it"
    code.begin()
    compiler = code.process_id
    assert compiler != os.getpid()
    assert is_running(compiler)
    code.begin()
    assert code.process_id == compiler, "one is enough"
    small_loop.await_ready(code)
    numbers = np.arange(5)
    body = code.load(numbers)
    assert numbers.tolist() == [0, 1, 2, 3, 4], "loading calls nothing"
    check(body)
    assert not is_alive(compiler)
    again = small_loop.compilation()
    assert again.is_cached()
    check(again.load(*small_loop.arguments()))
    again.begin()
    assert again.is_ready(), "at once, without another compiler"
    assert again.process_id is None


def test_loading_is_not_compiling():
    code = small_loop.compilation()
    assert code.load(*small_loop.arguments()) is None
    assert not code.is_cached()


def test_code_for_another_processor_counts_as_absent():
    code = small_loop.compilation()
    code.begin()
    code.end()
    (lock,) = compiled.cache_root().rglob("*.lock")
    lock.with_name("double-0123456789abcdef.nbc").touch()
    code = small_loop.compilation()
    assert code.is_cached(), "as far as one can tell without looking into it"
    assert code.load(*small_loop.arguments()) is None
    assert not code.is_cached()
    code.begin()
    assert code.process_id is not None
    code.end()


def test_one_compiler_for_two_processes(tmp_path, parents, warm):
    both = [parents(PARENT + POLLS, tmp_path) for _ in range(2)]
    compilers = [process.stdout.readline().strip() for process in both]
    assert sorted(compilers)[1] == "None", compilers
    (tmp_path / "go").touch()
    for process in both:
        out, error = process.communicate(timeout=60)
        assert (out, error) == ("True\n", "")
    assert len(list(tmp_path.glob("compiler-*"))) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_who_waits_takes_over_from_a_killed_process(tmp_path, parents, number):
    first = parents(PARENT + "time.sleep(600)", tmp_path)
    compiler = int(first.stdout.readline())
    code = small_loop.compilation("held", str(tmp_path))
    code.begin()
    assert code.is_begun
    assert code.process_id is None, "the other has it"
    assert not code.is_ready()
    first.send_signal(number)
    first.wait(timeout=60)
    await_true(lambda: not is_running(compiler))
    await_true(lambda: code.is_ready() or code.process_id is not None)
    code.end()


def test_a_killed_compiler_leaves_the_lock_free(tmp_path):
    first = small_loop.compilation("held", str(tmp_path))
    first.begin()
    second = small_loop.compilation("held", str(tmp_path))
    second.begin()
    assert second.process_id is None
    os.kill(first.process_id, signal.SIGKILL)
    await_true(lambda: second.is_ready() or second.process_id is not None)
    assert not first.is_ready()
    assert first.process_id is None, "it waits for the second"
    assert first.failure is None
    second.end()


def test_a_compiler_that_was_killed_is_started_once_more(tmp_path):
    code = small_loop.compilation("held", str(tmp_path))
    code.begin()
    killed = code.process_id
    os.kill(killed, signal.SIGKILL)
    await_true(lambda: not code.is_ready() and code.process_id not in (None, killed))
    os.kill(code.process_id, signal.SIGKILL)
    small_loop.await_ready(code)
    assert code.failure == "the compiler exited without a result (status -9)"
    code.begin()
    assert code.process_id is None, "twice is enough"


def test_damaged_code_is_compiled_again():
    """A bit of the digest, of the signature or of the machine code has flipped."""
    code = small_loop.compilation()
    code.begin()
    small_loop.await_ready(code)
    (path,) = compiled.cache_root().rglob("double-*.nbc")
    whole = path.read_bytes()
    for place in (0, 31, 32, 2000, -1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        again = small_loop.compilation()
        assert again.load(*small_loop.arguments()) is None, place
        assert not again.is_cached()
        assert not path.exists()
    path.write_bytes(whole)
    check(small_loop.compilation().load(*small_loop.arguments()))


def test_code_that_was_damaged_is_there_again_after_a_compiler(warm):
    """A file that is cut short stands for all damage: it is one that nothing was loaded from."""
    code = small_loop.compilation("kept")
    code.begin()
    small_loop.await_ready(code)
    (path,) = compiled.cache_root().rglob("double-*.nbc")
    path.write_bytes(path.read_bytes()[:-1])
    again = small_loop.compilation("kept")
    assert again.load(*small_loop.arguments()) is None
    again.begin()
    small_loop.await_ready(again)
    assert not again.is_made_here
    check(again.load(*small_loop.arguments()))


def test_a_fork_does_not_keep_a_compiler_alive(tmp_path, parents):
    """Neither its pipe nor its lock: a fork of an application has both open."""
    forks = "\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\ntime.sleep(600)"
    process = parents(PARENT + forks, tmp_path)
    compiler, fork = int(process.stdout.readline()), int(process.stdout.readline())
    try:
        process.kill()
        await_true(lambda: not is_running(compiler))
        code = small_loop.compilation("held", str(tmp_path))
        code.begin()
        assert code.process_id is not None
        code.end()
    finally:
        os.kill(fork, signal.SIGKILL)


# A process that has a pipe without Python's knowing, as a library that forks has.
STUBBORN = """
import ctypes
fork = ctypes.CDLL(None).fork()
if fork == 0:
    ctypes.CDLL(None).sleep(600)
    os._exit(0)
print(fork, flush=True)
time.sleep(600)
"""


def test_nor_does_a_fork_that_python_knows_nothing_of(tmp_path, parents):
    process = parents(PARENT + STUBBORN, tmp_path)
    compiler = int(process.stdout.readline())
    fork = int(process.stdout.readline())
    try:
        process.kill()
        await_true(lambda: not is_running(compiler))
        assert is_running(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.parametrize("ends", ["", "sys.exit(3)", "code.end()", "raise KeyboardInterrupt"])
def test_a_compiler_ends_with_its_process(tmp_path, parents, ends):
    process = parents(PARENT + ends, tmp_path)
    compiler = int(process.stdout.readline())
    process.wait(timeout=60)
    await_true(lambda: not is_running(compiler))


def test_an_interrupt_reaches_the_compiler_in_silence(tmp_path, parents):
    """Ctrl-C goes to both, and the process may go on."""
    goes_on = """
import signal
signal.signal(signal.SIGINT, lambda *_: None)
print("ready", flush=True)
while code.failure is None:
    code.is_ready(); time.sleep(0.01)
"""
    process = parents(PARENT + goes_on, tmp_path, start_new_session=True)
    compiler = int(process.stdout.readline())
    process.stdout.readline()
    await_true(lambda: (tmp_path / f"compiler-{compiler}").exists())
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (0, "", "")
    assert not is_running(compiler)


def test_what_does_not_compile():
    code = small_loop.compilation("broken", body=small_loop.fail)
    code.begin()
    small_loop.await_ready(code)
    assert "small_loop.py" in code.failure
    assert "no_such_thing" in code.failure
    assert "\n" not in code.failure
    code.begin()
    assert not code.is_begun, "it was tried"


@pytest.mark.parametrize("recipe", ["nowhere", "held"])
def test_a_recipe_that_fails(recipe):
    code = small_loop.compilation(recipe, "\0")
    code.begin()
    small_loop.await_ready(code)
    assert code.failure


SAID = "cannot keep compiled code in {} ({})"


def check_spare(capfd, code, reason):
    code.begin()
    small_loop.await_ready(code)
    check(code.load(*small_loop.arguments()))
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert SAID.format(compiled.cache_root(), reason) in said
    return said


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, capfd, warm):
    """Below a file there is no directory, for root neither."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "file" / "cache"))
    check_spare(capfd, small_loop.compilation("kept"), "Not a directory")
    again = small_loop.compilation("kept")
    again.begin()
    small_loop.await_ready(again)
    assert capfd.readouterr().err == "", "said once"


def test_a_cache_that_cannot_be_written_at_the_end(capfd, warm):
    """The compiler finds out when it has compiled; what it has made is not lost."""
    code = small_loop.compilation("spoiled")
    check_spare(capfd, code, "Not a directory")


def test_no_place_for_code_at_all(tmp_path, capfd, warm):
    """No file of the compiler may have more than a few bytes, as on a disk that is full."""
    code = small_loop.compilation("held", str(tmp_path))
    code.begin()
    few = (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    resource.prlimit(code.process_id, resource.RLIMIT_FSIZE, few)
    (tmp_path / "go").touch()
    small_loop.await_ready(code)
    assert SAID.format(compiled.cache_root(), "File too large") in capfd.readouterr().err
    check(code.load(*small_loop.arguments()))


def test_compiled_in_the_process_waits_for_a_compiler(tmp_path, parents, warm):
    """``Entry.prepare`` compiles nothing that another process is at."""
    first = parents(PARENT + POLLS, tmp_path)
    assert int(first.stdout.readline())
    waits = """
import sys
from tests.support import small_loop
work = small_loop.work("")
work.entry.prepare(work.key, work.own, *work.arguments)
"""
    second = parents(waits)
    assert "waiting for a process that compiles the same" in second.stderr.readline()
    assert second.poll() is None
    (tmp_path / "go").touch()
    _, error = second.communicate(timeout=60)
    assert (second.returncode, error) == (0, ""), "it has loaded what the other compiled"


def test_what_auto_stands_for(monkeypatch):
    monkeypatch.delenv("PRECEDES_TIER")
    assert tiers.resolve("auto") == "auto"
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    assert tiers.resolve("auto") == "interpreted"
    assert tiers.resolve("compiled") == "compiled", "what is said goes first"
    monkeypatch.setenv("PRECEDES_TIER", "fast")
    with pytest.raises(UserError, match="PRECEDES_TIER"):
        tiers.resolve("auto")
    with pytest.raises(UserError, match="tier must be"):
        tiers.resolve("quick")
