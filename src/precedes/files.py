"""Atomic writes, and removal of files that killed processes have left."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from precedes.errors import UserError


@contextlib.contextmanager
def aside(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Context manager for a path to write, renamed to its target unless the block raises.

    With ``sync`` it is durable then. A killed process leaves it behind, see ``asides_in``.
    """
    temporary = path.with_name(f".{path.name}.tmp-{platform.node()}-{os.getpid()}")
    try:
        yield temporary
        if sync:
            _sync(temporary)
        temporary.replace(path)
        if sync:
            _sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_aside(path: Path, content: bytes) -> None:
    """Write a file atomically: it is there whole, or as it was before."""
    with aside(path) as temporary:
        temporary.write_bytes(content)


def asides_in(folder: Path) -> Iterator[Path]:
    """Unfinished files of ``aside`` in a folder, also those of killed processes."""
    return folder.glob(".*.tmp-*")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory, with its parents, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the directory {path}: {error.strerror}") from None


def own_directory(base: Path, prefix: str = "") -> Path:
    """A new directory for this process alone; remove those of dead processes."""
    # A process number means nothing on another machine.
    start = f"{prefix}{platform.node()}-"
    for name in os.listdir(base):
        owner = name.removeprefix(start).partition("-")[0]
        if name.startswith(start) and owner.isdecimal() and not is_alive(int(owner)):
            shutil.rmtree(base / name, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{start}{os.getpid()}-", dir=base))


def is_alive(process: int) -> bool:
    """Return whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
