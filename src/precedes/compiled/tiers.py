"""How code runs: interpreted at once, compiled as soon as a compiler has filled the cache.

A loop can be interpreted or compiled with the same arrays and the same results, so that whoever
calls it over and over may change from one to the other between two calls. ``compilation`` is what
such a caller asks: whether there is compiled code, whether to have it made, whether it is ready.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast, get_args

from precedes import waiting
from precedes.compiled import cache
from precedes.compiled.entry import Entry
from precedes.compiled.process import Compiler, Report
from precedes.errors import InternalError, UserError
from precedes.files import asides_in, own_directory

P = ParamSpec("P")
R = TypeVar("R")

# "auto": compiled if that is in the cache; else interpreted at once, and compiled as soon as a
# compiler has filled the cache. "compiled": not before it is compiled.
Tier = Literal["auto", "compiled", "interpreted"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)

# What "auto" stands for where nobody says otherwise.
VARIABLE: Final = "PRECEDES_TIER"


def resolve(tier: str) -> Tier:
    """A tier that was asked for, as it is meant here."""
    if tier not in TIERS:
        raise UserError(f"tier must be one of {', '.join(TIERS)}, not {tier!r}")
    if tier == "auto":
        tier = os.environ.get(VARIABLE) or "auto"
        if tier not in TIERS:
            raise UserError(f"{VARIABLE} must be one of {', '.join(TIERS)}, not {tier!r}")
    return tier


class _State(enum.Enum):
    IDLE = enum.auto()  # nobody has asked for a compiler
    RUNNING = enum.auto()  # ours runs
    AWAITED = enum.auto()  # another process compiles the same
    READY = enum.auto()
    FAILED = enum.auto()
    HERE = enum.auto()  # there is nowhere to keep code: it is compiled in this process


class Compilation(Generic[P, R]):
    """The compiled form of a loop for one state class: there, being made, or not wanted.

    Nothing here blocks but ``load``. A compiler that was begun lives as long as this process or
    until ``end``. ``failure`` says in a line why there will be no compiled code, as it does for a
    user's protocol that does not compile; it is tried once in a process, or twice if the first
    compiler was killed.
    """

    def __init__(
        self,
        entry: Entry[P, R],
        key: type | None,
        own: tuple[Path, ...],
        *,
        recipe: str,
        subject: str,
    ) -> None:
        self._entry = entry
        self._key = key
        self._own = own
        self._recipe = recipe
        self._subject = subject
        self._state = _State.IDLE
        self._compiler: Compiler | None = None
        self._is_ours = False  # the code was made by our compiler
        self._was_restarted = False
        self._lock: int | None = None  # descriptor of the lock that we wait for, or hand over
        self._root = cache.cache_root()
        self._place: Path | None = None  # where a compiler keeps its code
        self._unfit: frozenset[str] = frozenset()  # files for other processors
        self._mutex = threading.RLock()
        self.failure: str | None = None

    @functools.cached_property
    def _directory(self) -> Path | None:
        return self._entry.directory(self._key, self._own)

    def is_cached(self) -> bool:
        """Whether there seems to be compiled code, which ``load`` finds out."""
        return self._directory is not None and self._has_code(self._directory)

    def _has_code(self, directory: Path) -> bool:
        return bool(cache.forms_in(directory, self._entry.interpreted) - self._unfit)

    @property
    def is_begun(self) -> bool:
        """Whether code is being made, here or in another process, as far as is known."""
        return self._state in (_State.RUNNING, _State.AWAITED)

    def is_being_made(self) -> bool:
        """Whether a process compiles it, this one's or another that shares the cache."""
        if self._directory is None:
            return False
        return cache.is_locked(cache.lock_path(self._directory, self._entry.interpreted))

    @property
    def is_made_here(self) -> bool:
        """Whether ``load`` would compile in this process: code can be kept nowhere."""
        return self._state is _State.HERE

    @property
    def process_id(self) -> int | None:
        """The number of our compiler's process, while it runs."""
        return None if self._compiler is None else self._compiler.process_id

    def begin(self) -> None:
        """Have a compiler make the code, unless one does or has tried; it takes milliseconds."""
        with self._mutex:
            if self._state is not _State.IDLE:
                return
            self._place = self._find_place()
            if self._place is None:
                self._state = _State.HERE
            else:
                self._take_lock()

    def _find_place(self) -> Path | None:
        """Open the lock beside the code: in the cache, or in a directory of this process."""
        if self._directory is None:
            return None
        try:
            return self._open(self._directory)
        except OSError as error:
            cache.tell_not_kept(error)
        try:
            self._root = _spare_root(os.getpid())
            return self._open(self._root / self._directory.relative_to(cache.cache_root()))
        except OSError:
            return None

    def _open(self, directory: Path) -> Path:
        cache.make_room(directory)
        self._lock = cache.open_lock(directory, self._entry.interpreted)
        return directory

    def _take_lock(self) -> None:
        """Start our compiler if nobody has the lock."""
        assert self._lock is not None
        assert self._place is not None
        if not cache.try_lock(self._lock):
            self._state = _State.AWAITED
            return
        try:
            if self._has_code(self._place):
                self._state = _State.READY
                return
            for path in asides_in(self._place):
                path.unlink(missing_ok=True)
            self._start()
        except OSError as error:
            self._fail(f"no compiler can be started: {error.strerror}")
        finally:
            self._close_lock()

    def _start(self) -> None:
        order: dict[str, Any] = {"recipe": self._recipe, "subject": self._subject}
        order |= {"root": str(self._root), "spare": None}
        with contextlib.suppress(OSError):
            order["spare"] = str(_spare_root(os.getpid()))
        self._compiler = Compiler(order, lock=self._lock)
        self._state = _State.RUNNING

    def _close_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_ready(self) -> bool:
        """Whether ``load`` would find the code; if who was making it has died, we do now."""
        with self._mutex:
            if self._state is _State.AWAITED:
                self._take_lock()
            elif self._state is _State.RUNNING:
                assert self._compiler is not None
                report = self._compiler.report()
                if report is not None:
                    self._compiler = None
                    self._take(report)
            return self._state in (_State.READY, _State.HERE)

    def _take(self, report: Report) -> None:
        assert self._place is not None
        if report.was_killed and not self._was_restarted:
            self._was_restarted = True
            self._state = _State.IDLE
            self.begin()
            return
        if report.failure is not None:
            self._fail(report.failure)
            return
        if report.not_kept is not None:
            cache.tell_not_kept(OSError(0, report.not_kept))
            self._place = _spare_root(os.getpid()) / self._place.relative_to(self._root)
        self._is_ours = self._has_code(self._place)
        self._state = _State.READY if self._is_ours else _State.HERE

    def _fail(self, reason: str) -> None:
        self._state = _State.FAILED
        self.failure = reason

    def load(self, *arguments: P.args, **none: P.kwargs) -> Callable[P, R] | None:
        """The compiled code for arguments of these types; None if there is none after all.

        It calls nothing. It takes a fraction of a second and may run in a thread; where code
        cannot be kept at all it is compiled here, which takes as long as that takes. What is in
        the cache for other processors alone counts as absent from now on.
        """
        found = self._entry.ready(self._key, self._own, arguments)
        if found is not None:
            return found
        if self._state is _State.HERE:
            return self._compile_here(*arguments, **none)
        directory = self._place or self._directory
        if directory is None:
            return None
        found = self._entry.load(self._key, self._own, arguments, directory)
        if found is None:
            with self._mutex:
                self._unfit = cache.forms_in(directory, self._entry.interpreted)
                if self._is_ours:
                    self._fail("what was compiled cannot be loaded")
                elif self._state is _State.READY:
                    self._state = _State.IDLE
        return found

    def _compile_here(self, *arguments: P.args, **none: P.kwargs) -> Callable[P, R] | None:
        try:
            return self._entry.prepare(self._key, self._own, *arguments, **none)
        except InternalError as error:
            self._fail(str(error))
            return None

    def end(self) -> None:
        """End our compiler if it runs; it may begin again."""
        with self._mutex:
            if self.is_begun:
                self._state = _State.IDLE
            if self._compiler is not None:
                self._compiler.end()
                self._compiler = None
            self._close_lock()

    def leave_to_parent(self) -> None:
        """In a process that was forked: what the parent has begun is another process's."""
        self._mutex = threading.RLock()
        self._compiler = None
        self._close_lock()
        if self.is_begun:
            self._state = _State.IDLE


_compilations: Final[dict[Any, Compilation[..., Any]]] = {}


def compilation(
    entry: Entry[P, R], key: type | None, own: tuple[Path, ...], *, recipe: str, subject: str
) -> Compilation[P, R]:
    """The one ``Compilation`` of a loop for a state class in this process.

    ``recipe`` and ``subject`` tell a compiler process what to do: see ``compiler``.
    """
    which = entry, key, own, cache.cache_root()
    found = _compilations.get(which)
    if found is None:
        found = Compilation(entry, key, own, recipe=recipe, subject=subject)
        _compilations[which] = found
    return cast("Compilation[P, R]", found)


def tell_failure(failed: Compilation[..., Any], label: str) -> None:
    """Say once why a protocol stays interpreted."""
    if failed.failure is not None:
        waiting.tell_once(f"{label} stays interpreted, which is slow: {failed.failure}")


def _after_fork() -> None:
    for each in _compilations.values():
        each.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _spare_root(process: int) -> Path:
    """A directory for code that lives as long as this process."""
    made = own_directory(Path(tempfile.gettempdir()), "precedes-code-")
    atexit.register(_remove_spare, made, process)
    return made


def _remove_spare(path: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
