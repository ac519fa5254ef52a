"""Where compiled code is kept: a directory named by a digest of all that it was made of.

Numba keys a cache entry by the file that defines the loop alone: an edited protocol would go on
returning its old results. Processes on several machines may share the place (see ``stored``);
what is read from it is run, so nobody else should be able to write there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from precedes import sources, waiting
from precedes.compiled.options import toolchain
from precedes.files import write_aside

# Loops whose compiled code is kept, a megabyte each: all protocols in a few versions.
VERSIONS_KEPT: Final = 200

SUFFIX: Final = ".nbc"

# Where code goes that cannot be kept in its place, if that is to be: the parent of a compiler
# that waits for its code can still use it there.
spare: Path | None = None

# Why code was not kept in its place, the last time.
not_kept: OSError | None = None


def sources_digest(extra: Iterable[Path] = ()) -> str:
    """A digest of what runs are made of, of ``extra``, and of the compile options."""
    return sources.digest(extra, more=f"{toolchain()} {sources.digest_of_runs()}")


def cache_root() -> Path:
    """Where compiled code is kept: ``PRECEDES_CACHE``, or the user's cache directory."""
    configured = os.environ.get("PRECEDES_CACHE")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "precedes"


def directory_of(parts: tuple[Path, ...], key: type | None) -> Path | None:
    """Where code made of these files is kept for a state class; None if one of them was edited
    since this process began, whose code is the old one."""
    if not sources.are_as_imported(parts):
        return None
    name = "none" if key is None else f"{key.__module__}.{key.__qualname__}"
    return cache_root() / sources.digest(parts, more=toolchain()) / name


def make_room(directory: Path) -> None:
    """Make a directory for compiled code; of the others, those used last are kept.

    One that is there already may be somebody else's, and only be read.
    """
    version = directory.parent
    if not version.exists():
        others = sorted(version.parent.glob("*/"), key=_used_s, reverse=True)
        for path in others[VERSIONS_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        version.touch()


def _used_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process, or machine, makes room as well
        return 0.0


def name_of(body: Callable[..., Any]) -> str:
    """What the files of a loop's compiled forms begin with."""
    return body.__qualname__.replace("<", "").replace(">", "")


def forms_in(directory: Path, body: Callable[..., Any]) -> frozenset[str]:
    """The names of the files that hold compiled forms of a loop, for this processor or others."""
    return frozenset(path.name for path in directory.glob(f"{name_of(body)}-*{SUFFIX}"))


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache if there is room for it, else into the spare root if there is one.

    What could not be kept is made again next time, which is said.
    """
    global not_kept
    try:
        write_aside(path, content)
    except OSError as error:
        not_kept = error
        if spare is None:
            tell_not_kept(error)
            return
        other = spare / path.relative_to(cache_root())
        with contextlib.suppress(OSError):
            other.parent.mkdir(parents=True, exist_ok=True)
            write_aside(other, content)


def tell_not_kept(error: OSError) -> None:
    """Say once in a process that the cache cannot be written, which is no reason to fail."""
    waiting.tell_once(
        f"cannot keep compiled code in {cache_root()} ({error.strerror or error}), so it is "
        "compiled again next time: make room there, or set PRECEDES_CACHE to a directory that can "
        "be written"
    )


def lock_path(directory: Path, body: Callable[..., Any]) -> Path:
    """The file whose lock is held by whoever compiles a loop into a directory."""
    return directory / f"{name_of(body)}.lock"


def open_lock(directory: Path, body: Callable[..., Any]) -> int:
    """The descriptor of that file, with nothing locked."""
    return os.open(lock_path(directory, body), os.O_RDWR | os.O_CREAT, 0o666)


def try_lock(descriptor: int) -> bool:
    """Take a lock unless somebody has it; where there are no locks, everybody gets it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of a file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody has locked it yet
        return False
    return False


@contextlib.contextmanager
def locked(directory: Path | None, body: Callable[..., Any]) -> Iterator[None]:
    """Hold the lock of a loop's code, once whoever has it is done; without one if it cannot be."""
    try:
        descriptor = None if directory is None else open_lock(directory, body)
    except OSError:  # nobody could keep anything here
        descriptor = None
    if descriptor is None:
        yield
        return
    try:
        if not try_lock(descriptor):
            with waiting.shown("waiting for a process that compiles the same", line=True):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
