"""Cache of machine code: a directory named by a digest of everything that it was made from.

Numba keys a cache entry by the file that defines the loop alone: an edited protocol would go on
returning its old results. Processes on several machines may share the directory (see ``stored``);
machine code from it is executed, so no other user should be able to write to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from precedes import sources, waiting
from precedes.compiled.options import toolchain
from precedes.files import write_aside

# Loops whose machine code is kept, a megabyte each: all protocols in a few versions.
VERSIONS_KEPT: Final = 200

SUFFIX: Final = ".nbc"
_VERSION: Final = re.compile("[0-9a-f]{24}")  # the name of a directory with machine code


def sources_digest(extra: Iterable[Path] = ()) -> str:
    """A digest of the sources of runs, of ``extra``, and of the compile options."""
    return sources.digest(extra, more=f"{toolchain()} {sources.digest_of_runs()}")


def cache_root() -> Path:
    """The cache directory: ``PRECEDES_CACHE``, or the user's cache directory."""
    configured = os.environ.get("PRECEDES_CACHE")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "precedes"


def spare_root() -> Path:
    """The directory for machine code that cannot be kept in ``cache_root``.

    Raises OSError if it is not a directory that only this user can write.
    """
    path = Path(tempfile.gettempdir()) / f"precedes-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{path} belongs to another user")
    return path


def directory_of(parts: tuple[Path, ...], key: type | None) -> Path | None:
    """The directory below a root for code made of these files, for a state class.

    None if one of the files was edited since this process began, which runs the old code.
    """
    if not sources.are_as_imported(parts):
        return None
    name = "none" if key is None else f"{key.__module__}.{key.__qualname__}"
    return Path(sources.digest(parts, more=toolchain())) / name


def make_room(directory: Path) -> None:
    """Make a directory for machine code, and remove the least recently used ones.

    An existing directory may belong to another user and be read-only.
    """
    version = directory.parent
    if not version.exists():
        others = [path for path in version.parent.glob("*/") if _VERSION.fullmatch(path.name)]
        for path in sorted(others, key=_used_s, reverse=True)[VERSIONS_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        version.touch()


def _used_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process, or machine, removes them too
        return 0.0


def name_of(body: Callable[..., Any]) -> str:
    """The common prefix of the names of files with a loop's machine code."""
    return body.__qualname__.replace("<", "").replace(">", "")


def forms_in(directory: Path, body: Callable[..., Any]) -> frozenset[tuple[Path, int]]:
    """The files with a loop's machine code, for this processor or others, and their times.

    Numba's own files are in a directory of their own.
    """
    forms = set()
    for path in directory.rglob(f"{name_of(body)}-*{SUFFIX}"):
        with contextlib.suppress(OSError):
            forms.add((path, path.stat().st_mtime_ns))
    return frozenset(forms)


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache or, if there is no room for it, one below the spare root."""
    try:
        write_aside(path, content)
    except OSError as error:
        root = cache_root()
        if not path.is_relative_to(root):
            raise
        tell_not_kept(error)
        other = spare_root() / path.relative_to(root)
        other.parent.mkdir(parents=True, exist_ok=True)
        write_aside(other, content)


def tell_not_kept(error: OSError) -> None:
    """Log once in a process that the cache is not writable, which is not an error."""
    waiting.tell_once(
        f"cannot keep compiled code in {cache_root()} ({error.strerror or error}): make room "
        "there, or set PRECEDES_CACHE to a directory that can be written"
    )


def try_lock(descriptor: int) -> bool:
    """Take a lock unless another process holds it; without support for locks, always succeed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def unlock(descriptor: int) -> None:
    """Release a lock."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # never locked
        return False
    return False
