"""Background compilation: a separate process makes machine code, the others load its file.

A loop without machine code runs interpreted at first. ``Code.begin`` starts a compiler for it,
``Code.load`` returns the machine code as soon as its file exists. Hosts call both again and again,
between two slices of a run or two turns of a live member.

A compiler survives the process that started it. It holds the lock of a file in the cache for as
long as it runs, so there is one for each protocol and version of its sources, on a machine or on
all that share the cache; it writes a log next to the lock. It ends when it exceeds a bound
of time or memory, when its sources are edited, and when the cache is removed. The lock of a
compiler that was killed is free, so that a process that waits for it starts another, once.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import hashlib
import importlib
import json
import os
import re
import resource
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypedDict,
    TypeVar,
    cast,
)

from precedes import sources, waiting
from precedes.compiled import cache
from precedes.compiled.entry import Entry
from precedes.errors import InternalError, PrecedesError
from precedes.files import asides_in

if TYPE_CHECKING:
    import subprocess

P = ParamSpec("P")
R = TypeVar("R")

# What a compiler makes: "module:function", which is called with the name of a protocol and returns
# a ``Work``. This package imports neither the simulator nor live groups, whose loops these are.
RECIPES: Final = {
    "simulator": "precedes.sim.run:work",
    "live": "precedes.live.member.node:work",
    "audit": "precedes.audit.compiling:work",
}
# For a protocol that is used for the first time both are made, the requested one first.
OF_PROTOCOLS: Final = ("simulator", "live")

# Bounds of a compiler. The largest protocol takes 40 CPU-seconds and half a gigabyte.
CPU_S_MAX: Final = 1200
WALL_S_MAX: Final = 3600.0
ADDRESS_BYTES_MAX: Final = 8 << 30
RESERVE_MIB: Final = "64"  # of each table of a state that is only compiled for

# Foreground work has priority over a compiler, and a requested loop over one for later use.
NICENESS, NICENESS_LATER = 5, 14
LOOK_S: Final = 0.05
WATCH_S: Final = 2.0

STARTS_MAX: Final = 2  # by one process, and by all of them
NOTES_EXPIRE_S: Final = 3600.0  # failures are tried again after this
NOTE_BYTES_MAX: Final = 4096
LOGS_KEPT: Final = 100
JOBS: Final = "compilers"  # the folder of locks and logs

# The child imports from the same paths as this process.
_START: Final = """
import json, sys
order = json.loads(sys.argv[1])
sys.path[:] = order.pop("path")
from precedes.compiled import compiler
compiler.main(**order)
"""

# One thread at a time starts a compiler or loads code; no fork inherits the lock of a compiler.
_mutex: Final = threading.RLock()
os.register_at_fork(
    before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_mutex.release
)

_is_compiler = False  # this process is one


class Code(Generic[P, R]):
    """The machine code of a loop for one state class: loaded when it is there, or to be made.

    ``failure`` is the reason, in one line, why there will be none.
    """

    def __init__(
        self,
        entry: Entry[P, R],
        key: type | None = None,
        own: tuple[Path, ...] = (),
        *,
        subject: str = "",
    ) -> None:
        self.failure: str | None = None
        self._entry, self._key, self._own = entry, key, own
        self._subject = subject
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._is_homeless = False  # no writable cache directory
        self._unfit: frozenset[tuple[Path, int]] = frozenset()  # for other processors

    @functools.cached_property
    def _directory(self) -> Path | None:
        return self._entry.directory(self._key, self._own)

    @functools.cached_property
    def _job(self) -> Path:
        """The lock below a root; all loops of an audit have the same."""
        digest = cache.sources_digest(self._own)
        key = f"{self._entry.job} {digest} {self._key and self._key.__qualname__}"
        words = [Path(self._subject).stem, self._entry.job]
        name = re.sub(r"\W+", "-", "-".join(filter(None, words)))
        return Path(JOBS) / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.lock"

    def _roots(self) -> list[Path]:
        roots = [cache.cache_root()]
        with contextlib.suppress(OSError):
            roots.append(cache.spare_root())
        return roots

    def files(self) -> frozenset[tuple[Path, int]]:
        """The files with machine code, as far as known for this processor, and their times."""
        if self._directory is None:
            return frozenset()
        body, forms = self._entry.interpreted, set[tuple[Path, int]]()
        for root in self._roots():
            forms |= cache.forms_in(root / self._directory, body)
        return frozenset(forms - self._unfit)

    def is_cached(self) -> bool:
        """Return whether there seems to be machine code; only ``load`` makes sure."""
        return bool(self.files())

    def is_being_made(self) -> bool:
        """Return whether a compiler is running, started by this process or another."""
        is_ours = self._process is not None and self._process.poll() is None
        return is_ours or any(cache.is_locked(root / self._job) for root in self._roots())

    @property
    def process_id(self) -> int | None:
        """The compiler that this process has started, while it runs."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def lock_path(self) -> Path:
        """The file that a compiler locks; its log has the same name."""
        return cache.cache_root() / self._job

    def begin(self, *, then: bool = False, afresh: bool = False) -> None:
        """Start a compiler, unless there is machine code or a reason why there is none.

        It takes milliseconds. Called again during a wait, it replaces a compiler that was killed.
        ``then``: the compiler makes the protocol's other loop as well.
        ``afresh``: ignore failures of earlier compilers.
        """
        with _mutex:
            if self.failure or self.process_id or self.is_cached():
                return
            if self._directory is None:
                self.failure = "its sources were edited since this process began"
                return
            error: OSError | None = None
            for root in self._roots():
                try:
                    lock = self.open_lock(root)
                except OSError as raised:
                    error = raised
                    cache.tell_not_kept(raised)
                    continue
                try:
                    if cache.try_lock(lock) and not self.is_cached():
                        self._start(root, lock, then=then, afresh=afresh)
                except OSError as raised:
                    self.failure = f"no compiler can be started: {raised.strerror}"
                finally:
                    os.close(lock)
                return
            self._is_homeless = True
            self.failure = (
                f"no directory for compiled code is writable ({error and error.strerror})"
            )

    def open_lock(self, root: Path) -> int:
        """The descriptor of the file that a compiler locks, not locked yet."""
        assert self._directory is not None
        cache.make_room(root / self._directory)
        (root / JOBS).mkdir(exist_ok=True)
        return os.open(root / self._job, os.O_RDWR | os.O_CREAT, 0o666)

    def _start(self, root: Path, lock: int, *, then: bool, afresh: bool) -> None:
        """Start a compiler, which inherits the lock, unless too many have failed."""
        import subprocess

        note: Note = {} if afresh else _read_note(lock)
        log = (root / self._job).with_suffix(".log")
        starts = note.get("starts", 0)
        if note.get("failure"):
            self.failure = note["failure"]
        elif max(starts, self._starts) >= STARTS_MAX:
            self.failure = f"the compiler exited without a result, {STARTS_MAX} times: see {log}"
        if self.failure:
            return
        kinds = [self._entry.job]
        kinds += [kind for kind in OF_PROTOCOLS if then and kind not in kinds]
        order = {
            "recipes": [RECIPES[kind] for kind in kinds],
            "subject": self._subject,
            "lock": lock,
            "path": [item or os.getcwd() for item in sys.path],
        }
        for path in asides_in(root / cast(Path, self._directory)):
            path.unlink(missing_ok=True)
        _forget_jobs(root / JOBS)
        _write_note(lock, {"starts": starts + 1})
        self._starts += 1
        # The bytecode, by which machine code is keyed, must be the same there.
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        changes = {"PRECEDES_CACHE": str(root.absolute()), "PRECEDES_TIER": "compiled"}
        changes |= {"PRECEDES_RESERVE_MIB": RESERVE_MIB, "OPENBLAS_NUM_THREADS": "1"}
        with log.open("ab" if starts else "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _START, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **changes},
                pass_fds=[lock],
                start_new_session=True,
            )
        _started.append(self._process)

    def _make_here(self, *arguments: Any) -> Callable[P, R]:
        return cast("Entry[..., R]", self._entry).prepare(self._key, self._own, *arguments)

    def load(self, *arguments: Any) -> Callable[P, R] | None:
        """The machine code for arguments of these types; None if there is none yet.

        It calls nothing. It takes a fraction of a second and may run in a thread. Files for other
        processors count as absent from then on.
        """
        machine_code = self._entry.ready(self._key, self._own, arguments)
        if machine_code is not None or self._directory is None or not self.is_cached():
            return machine_code
        with _mutex:
            machine_code = self._entry.ready(self._key, self._own, arguments)
            for root in self._roots():
                if machine_code is None:
                    directory = root / self._directory
                    machine_code = self._entry.load(self._key, self._own, arguments, directory)
            if machine_code is None:
                self._unfit |= self.files()
        return machine_code

    def wait(self, *arguments: Any, text: str = "") -> Callable[P, R]:
        """Wait for the machine code for arguments of these types, and return it.

        ``text`` describes the wait. InternalError if it cannot be made; without a writable cache
        directory it is made here.
        """
        if _is_compiler:
            return self._make_here(*arguments)
        text = text or f"compiling {self._entry.label} for first use (some seconds; then cached)"
        with contextlib.ExitStack() as shown:
            while (body := self.load(*arguments)) is None:
                if self._is_homeless:
                    return self._make_here(*arguments)
                if self.failure is not None:
                    raise InternalError(self.failure)
                if text:
                    shown.enter_context(waiting.shown(text, line=True))
                    text = ""
                self.begin()
                time.sleep(LOOK_S)
        return body

    def end(self) -> None:
        """End the compiler that this process has started, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Note(TypedDict, total=False):
    """Contents of a lock file: starts since the last result, and why there is no code."""

    starts: int
    failure: str


def _read_note(lock: int) -> Note:
    """The note of earlier compilers; an expired one is ignored."""
    if time.time() - os.fstat(lock).st_mtime > NOTES_EXPIRE_S:
        return {}
    with contextlib.suppress(ValueError):
        return cast(Note, json.loads(os.pread(lock, NOTE_BYTES_MAX, 0)))
    return {}


def _write_note(lock: int, note: Note) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(note).encode(), 0)


def _forget_jobs(folder: Path) -> None:
    """Remove the oldest locks and logs."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    for log in logs[: -LOGS_KEPT or None]:
        lock = log.with_suffix(".lock")
        if not cache.is_locked(lock):
            log.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


_started: Final[list[subprocess.Popen[bytes]]] = []


@atexit.register
def _leave() -> None:
    """Detach from compilers, which survive this process: their exit is not awaited here."""
    for process in _started:
        process.returncode = process.returncode or 0


_codes: Final[dict[Any, Code[..., Any]]] = {}


def code_of(
    entry: Entry[P, R],
    key: type | None = None,
    own: tuple[Path, ...] = (),
    *,
    subject: str = "",
) -> Code[P, R]:
    """The one ``Code`` of a loop for a state class in this process."""
    which = entry, key, own, cache.cache_root()
    if which not in _codes:
        _codes[which] = Code(entry, key, own, subject=subject)
    return cast("Code[P, R]", _codes[which])


def tell_failure(code: Code[..., Any], label: str) -> None:
    """Log once why a protocol stays interpreted."""
    waiting.tell_once(f"{label} stays interpreted, which is slow: {code.failure}")


class Item(NamedTuple):
    """Something to be compiled under a name: the codes that one compiler makes."""

    name: str
    codes: tuple[Code[..., Any], ...]

    def failure(self) -> str | None:
        """The reason for which it does not compile."""
        return next((code.failure for code in self.codes if code.failure), None)

    def is_kept(self) -> bool:
        """Return whether all of it is in the cache."""
        root = cache.cache_root()
        files = [[path for path, _ in code.files()] for code in self.codes]
        return all(any(path.is_relative_to(root) for path in paths) for paths in files)

    def is_over(self, *, afresh: bool = False) -> bool:
        """Return whether all of it is compiled, or something cannot be; else a compiler runs."""
        missing = next((code for code in self.codes if not code.is_cached()), None)
        if missing is not None:
            missing.begin(afresh=afresh)
        return missing is None or self.failure() is not None


def make_all(
    items: Iterable[Item], *, jobs: int, afresh: bool = False
) -> Iterator[tuple[Item, float]]:
    """Compile items, a bounded number at a time; yield each when done, with the seconds it took.

    ``afresh``: ignore failures of earlier compilers.
    """
    left = deque(items)
    running: dict[Item, float] = {}
    while left or running:
        while left and len(running) < jobs:
            running[left[0]] = time.monotonic()
            left.popleft().is_over(afresh=afresh)
        over = [item for item in running if item.is_over()]
        for item in over:
            yield item, time.monotonic() - running.pop(item)
        if not over:
            with waiting.shown(f"compiling {', '.join(item.name for item in running)}"):
                while not any(item.is_over() for item in running):
                    time.sleep(LOOK_S)


# In the compiler ------------------------------------------------------------------------------


class Work(NamedTuple):
    """A loop to be compiled for a state class and for arguments of these types."""

    entry: Entry[..., Any]
    key: type | None
    own: tuple[Path, ...]
    arguments: tuple[Any, ...]

    def compile(self) -> None:
        """Compile it here."""
        self.entry.prepare(self.key, self.own, *self.arguments)

    def code(self, subject: str) -> Code[..., Any]:
        """Its machine code."""
        return code_of(self.entry, self.key, self.own, subject=subject)


def main(*, recipes: list[str], subject: str, lock: int) -> None:
    """Run as a compiler: make the first recipe, which this lock belongs to, then the others."""
    global _is_compiler
    _is_compiler = True
    faulthandler.enable()
    os.nice(NICENESS)
    with contextlib.suppress(ValueError):  # lower bounds are set already
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, most))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    _say(f"process {os.getpid()} compiles {subject} for {', '.join(recipes)}")
    first, *others = recipes
    if not _make(first, subject, lock) or not others:
        return
    os.nice(NICENESS_LATER)
    # Of processes in different sessions, Linux compares the priorities of the sessions.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS + NICENESS_LATER))
    for recipe in others:
        _make(recipe, subject, None)


def _make(recipe: str, subject: str, lock: int | None) -> bool:
    """Compile a recipe unless another process does; return whether it can be compiled."""
    began_s, failure = time.monotonic(), None
    try:
        module, _, function = recipe.partition(":")
        work: Work = getattr(importlib.import_module(module), function)(subject)
        code = work.code(subject)
        if lock is None:
            lock = code.open_lock(cache.cache_root())
            if not cache.try_lock(lock) or code.is_cached():
                return True
        else:
            parts = work.entry.parts(work.key, work.own)
            watch = threading.Thread(target=_watch, args=(lock, code.lock_path, parts))
            watch.daemon = True
            watch.start()
        work.compile()
        if not code.is_cached():
            failure = "compiled code cannot be cached"
    except PrecedesError as error:
        failure = str(error)
    except BaseException as error:
        _say(traceback.format_exc())
        failure = f"{type(error).__name__}: {error}"
    failure = failure and " ".join(failure.split())[:500]
    took_s = time.monotonic() - began_s
    _say(f"{recipe}: {failure or 'compiled'}, {took_s:.1f} s, {time.process_time():.1f} s of CPU")
    if lock is not None:
        _write_note(lock, {"failure": failure} if failure else {})
        cache.unlock(lock)
    return failure is None


def _say(text: str) -> None:
    """Write a line to the log."""
    with contextlib.suppress(OSError):  # the disk may be full
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


def _watch(lock: int, path: Path, parts: tuple[Path, ...]) -> None:
    """End this process when its result is of no use any more, or takes too long."""
    end_s, before = time.monotonic() + WALL_S_MAX, sources.digest(parts)
    while time.monotonic() < end_s and path.exists() and sources.digest(parts) == before:
        time.sleep(WATCH_S)
    _say("ended: it takes too long, its sources were edited, or the cache was removed")
    with contextlib.suppress(OSError):
        _write_note(lock, {})
    os._exit(1)
