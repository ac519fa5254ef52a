"""Compilers: one for who waits for it, in a process of its own that survives whoever started it."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

from precedes import compiled, waiting
from precedes.compiled import compiler, tiers
from precedes.errors import InternalError, UserError
from tests.support import compilers, small_loop
from tests.support.places import ROOT
from tests.support.processes import await_true, is_running
from tests.support.signals import enable_interrupts


@pytest.fixture(autouse=True)
def cache(empty_cache):
    """A cache of the test's own, whose compilers end with it."""
    return empty_cache


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A cache that has the loop: what takes seconds is done once."""
    place = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECEDES_CACHE", str(place))
        work = small_loop.work("")
        work.entry.prepare(work.key, work.own, *work.arguments)
    return place


@pytest.fixture
def warm(compiled_once, monkeypatch):
    """Compilers take what is compiled already, for tests of all but the compiling."""
    monkeypatch.setenv("WARM_CACHE", str(compiled_once))


@pytest.fixture
def spare(tmp_path, monkeypatch):
    """The directory for code that the cache cannot keep."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(waiting, "_printed", set())
    return tmp_path / "tmp"


def check(body):
    """The compiled loop does what the plain one does."""
    numbers, plain = np.arange(5), np.arange(5)
    assert (body(numbers), numbers.tolist()) == (small_loop.double(plain), plain.tolist())


def log_of(code):
    return code.lock_path.with_suffix(".log").read_text()


def test_compiled_next_to_the_process_that_asks(cache):
    code = small_loop.code()
    assert not code.is_cached()
    assert not code.is_being_made(), "nobody has asked for it"
    code.begin()
    first = code.process_id
    assert first != os.getpid()
    assert is_running(first)
    assert code.is_being_made()
    code.begin()
    assert code.process_id == first, "one is enough"
    small_loop.await_over(code)
    numbers = np.arange(5)
    body = code.load(numbers)
    assert numbers.tolist() == [0, 1, 2, 3, 4], "loading calls nothing"
    check(body)
    await_true(lambda: not code.is_being_made())
    assert f"process {first} compiles" in log_of(code)
    assert "compiled, " in log_of(code)
    assert "s of CPU" in log_of(code)
    again = small_loop.code()
    assert again.is_cached()
    check(again.load(*small_loop.arguments()))
    again.begin()
    assert compilers.started(cache) == [first], "no second one"


def test_who_waits_says_so(capfd, monkeypatch, warm):
    monkeypatch.setattr(waiting, "_printed", set())
    code = small_loop.code()
    check(code.wait(*small_loop.arguments()))
    line = "precedes: compiling a small loop for first use (some seconds; then cached)\n"
    assert capfd.readouterr().err == line
    check(small_loop.code().wait(*small_loop.arguments()))
    assert capfd.readouterr().err == "", "nothing when it is cached"


def test_code_for_another_processor_counts_as_absent(cache, warm):
    other = small_loop.code()
    lock = other.open_lock(cache)
    os.close(lock)
    place = cache / other._directory / "double-0123456789abcdef.nbc"
    place.touch()
    code = small_loop.code()
    assert code.is_cached(), "as far as one can tell without looking into it"
    assert code.load(*small_loop.arguments()) is None
    assert not code.is_cached()
    check(code.wait(*small_loop.arguments()))
    assert place.exists(), "it is another machine's"


PARENT = """
import sys, time
from tests.support import small_loop
code = small_loop.code(sys.argv[1])
code.begin()
print(code.process_id, flush=True)
"""


def start(code, *arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        preexec_fn=enable_interrupts, **settings,
    )  # fmt: skip


def test_one_compiler_for_two_processes(tmp_path, cache, warm):
    waits = "small_loop.await_over(code); print(code.is_cached())"
    both = [start(PARENT + waits, f"held {tmp_path}") for _ in range(2)]
    begun = [process.stdout.readline().strip() for process in both]
    assert sorted(begun)[1] == "None", begun
    (tmp_path / "go").touch()
    for process in both:
        assert process.communicate(timeout=60) == ("True\n", "")
    assert len(compilers.started(cache)) == 1


ENDS = ["", "sys.exit(3)", "raise KeyboardInterrupt", "time.sleep(600)"]


@pytest.mark.parametrize("end", ENDS)
def test_it_survives_the_process_that_started_it(end, tmp_path, warm):
    """However that ends: in an ordinary way, with an error, or by an interrupt of its terminal."""
    process = start(PARENT + end, f"held {tmp_path}", start_new_session=True)
    begun = int(process.stdout.readline())
    if end == ENDS[-1]:
        os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert is_running(begun)
    code = small_loop.code(f"held {tmp_path}")
    assert code.is_being_made()
    (tmp_path / "go").touch()
    small_loop.await_over(code)
    check(code.load(*small_loop.arguments()))
    assert code.process_id is None, "it is that of the first process"
    await_true(lambda: not is_running(begun))


def test_a_fork_has_no_part_in_its_lock(tmp_path):
    """It neither keeps the lock of a compiler that was killed nor takes that compiler for its."""
    forks = "\nimport os\nif os.fork() == 0:\n    print(code.process_id, os.getpid(), flush=True)\n"
    process = start(f"{PARENT}{forks}time.sleep(600)", "endless")
    begun = int(process.stdout.readline())
    theirs, fork = process.stdout.readline().split()
    assert theirs == "None"
    code = small_loop.code("endless")
    assert code.is_being_made()
    os.kill(begun, signal.SIGKILL)
    await_true(lambda: not code.is_being_made())
    os.kill(int(fork), signal.SIGKILL)
    process.kill()
    process.communicate()


def test_a_compiler_that_was_killed_is_started_once_more(cache):
    code = small_loop.code("endless")
    for _ in range(2):
        await_true(lambda: code.begin() or code.process_id is not None)
        os.kill(code.process_id, signal.SIGKILL)
        await_true(lambda: not code.is_being_made())
    code.begin()
    assert code.failure.startswith("the compiler exited without a result, 2 times: see ")
    code.begin()
    assert code.process_id is None, "twice is enough"
    other = small_loop.code("endless")
    other.begin()
    assert other.failure == code.failure, "for everybody"
    again = small_loop.code("endless")
    again.begin(afresh=True)
    assert again.process_id is not None, "but for who wants it tried again"


def test_failures_expire():
    """It may have been the machine's."""
    code = small_loop.code("failing")
    code.begin()
    small_loop.await_over(code)
    assert code.failure == "it does not compile"
    other = small_loop.code("failing")
    other.begin()
    assert other.failure == "it does not compile"
    assert other.process_id is None
    old_s = time.time() - compiler.NOTES_EXPIRE_S - 60
    os.utime(code.lock_path, (old_s, old_s))
    again = small_loop.code("failing")
    again.begin()
    assert again.process_id is not None


def test_what_does_not_compile():
    code = small_loop.code("broken")
    code.begin()
    small_loop.await_over(code)
    assert "small_loop.py" in code.failure
    assert "no_such_thing" in code.failure
    assert "\n" not in code.failure
    with pytest.raises(InternalError, match="no_such_thing"):
        code.wait(*small_loop.arguments())


def test_its_time_is_bounded(monkeypatch, tmp_path):
    """A second of CPU, of a compiler that would never end."""
    (tmp_path / "spins.py").write_text("def work(subject):\n    while True: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(compiler.RECIPES, "small", "spins:work")
    code = small_loop.code()
    monkeypatch.setattr(compiler, "_START", BOUNDED)
    code.begin()
    await_true(lambda: not code.is_being_made())
    assert code._process.returncode == -signal.SIGXCPU


# A compiler with little time, which is over before it has begun.
BOUNDED = compiler._START.replace("compiler.main", "compiler.CPU_S_MAX = 1\ncompiler.main")


@pytest.mark.parametrize("what", ["cache", "source"])
def test_it_ends_when_nobody_can_use_it(what, tmp_path, monkeypatch):
    """The cache is removed, or the source that it compiles was edited."""
    own = tmp_path / "own.py"
    own.write_text("x = 1\n")
    watched = f"small_loop.OWN += (pathlib.Path({str(own)!r}),)"
    imports = f"import pathlib\nfrom tests.support import small_loop\n{watched}\n"
    quick = compiler._START.replace(
        "compiler.main", f"{imports}compiler.WATCH_S = 0.05\ncompiler.main"
    )
    monkeypatch.setattr(compiler, "_START", quick)
    monkeypatch.setattr(small_loop, "OWN", (*small_loop.OWN, own))
    code = small_loop.code(f"held {tmp_path}")
    code.begin()
    begun = code.process_id
    await_true(lambda: "compiles" in log_of(code))
    time.sleep(0.5)
    assert is_running(begun)
    if what == "cache":
        code.lock_path.unlink()
    else:
        own.write_text("x = 2\n")
    await_true(lambda: not is_running(begun))


def test_what_a_killed_compiler_left_is_removed(cache, warm):
    code = small_loop.code()
    os.close(code.open_lock(cache))
    left = cache / code._directory / ".double-1.nbc.tmp-machine-1"
    left.touch()
    code.wait(*small_loop.arguments())
    assert not left.exists()


def test_damaged_code_is_compiled_again(warm):
    """A bit of the digest, of the signature or of the machine code has flipped."""
    code = small_loop.code()
    code.wait(*small_loop.arguments())
    # The compiler checks that its file is there before it exits.
    await_true(lambda: not code.is_being_made())
    ((path, _),) = code.files()
    whole = path.read_bytes()
    for place in (0, 31, 32, 2000, -1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        again = small_loop.code()
        assert again.load(*small_loop.arguments()) is None, place
        assert not again.is_cached()
        assert not path.exists()
    again = small_loop.code()
    check(again.wait(*small_loop.arguments()))
    assert path.read_bytes() == whole


SAID = "cannot keep compiled code in {} ({})"


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, capfd, warm, spare):
    """Below a file there is no directory, for root neither; the code is kept for this user."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "file" / "cache"))
    code = small_loop.code()
    check(code.wait(*small_loop.arguments()))
    assert all(path.is_relative_to(spare) for path, _ in code.files())
    said = capfd.readouterr().err
    assert said.count(SAID.format(compiled.cache_root(), "Not a directory")) == 1
    check(small_loop.code().load(*small_loop.arguments()))
    compilers.end_all("PRECEDES_CACHE", spare / f"precedes-{os.getuid()}")


def test_a_cache_that_cannot_be_written_at_the_end(warm, spare):
    """The compiler finds out when it has compiled; what it has made is not lost."""
    code = small_loop.code("spoiled")
    check(code.wait(*small_loop.arguments()))
    assert all(path.is_relative_to(spare) for path, _ in code.files())


@pytest.mark.parametrize("why", ["somebody's", "full"])
def test_no_place_for_code_at_all(why, tmp_path, monkeypatch, spare):
    """With the tier compiled, code is compiled here; otherwise it stays interpreted."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "file" / "cache"))
    place = spare / f"precedes-{os.getuid()}"
    if why == "full":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o777)
    code = small_loop.code()
    code.begin()
    assert code.failure.startswith("no directory for compiled code is writable (")
    assert code.load(*small_loop.arguments()) is None
    check(code.wait(*small_loop.arguments()))
    assert code.files() == frozenset()


def test_a_disk_that_is_full(tmp_path, spare, warm):
    """No file of the compiler may have more than a few bytes."""
    code = small_loop.code(f"held {tmp_path}")
    code.begin()
    await_true(lambda: "compiles" in log_of(code))
    few = (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    resource.prlimit(code.process_id, resource.RLIMIT_FSIZE, few)
    (tmp_path / "go").touch()
    small_loop.await_over(code)
    assert code.failure == "OSError: [Errno 27] File too large"


def test_the_other_loop_of_the_protocol_is_made_too(monkeypatch, warm, cache):
    """After the one that is waited for, if nobody else makes it."""
    monkeypatch.setitem(compiler.RECIPES, "simulator", "tests.support.small_loop:work")
    monkeypatch.setattr(compiler, "OF_PROTOCOLS", ("small", "simulator"))
    code = small_loop.code()
    code.begin(then=True)
    small_loop.await_over(code)
    await_true(lambda: not is_running(compilers.started(cache)[0]))
    assert log_of(code).count("tests.support.small_loop:work, tests.support.small_loop:work") == 1


def test_what_auto_stands_for(monkeypatch):
    monkeypatch.delenv("PRECEDES_TIER", raising=False)
    assert tiers.resolve("auto") == "auto"
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    assert tiers.resolve("auto") == "interpreted"
    assert tiers.resolve("compiled") == "compiled", "what is said goes first"
    monkeypatch.setenv("PRECEDES_TIER", "fast")
    with pytest.raises(UserError, match="PRECEDES_TIER"):
        tiers.resolve("auto")
    with pytest.raises(UserError, match="tier must be"):
        tiers.resolve("quick")
