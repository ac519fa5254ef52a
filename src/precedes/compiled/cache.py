"""Where compiled code is kept: a directory named by a digest of all that it was made of.

Numba keys a cache entry by the file that defines the loop alone: an edited protocol would go on
returning its old results. Processes on several machines may share the place (see ``stored``);
what is read from it is run, so nobody else should be able to write there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from precedes import sources
from precedes.compiled.options import OPTIONS, SHORTCUTS

# Loops whose compiled code is kept, a megabyte each: all protocols in a few versions.
VERSIONS_KEPT: Final = 200


@functools.cache
def _toolchain() -> str:
    """What compiled code depends on beside its sources."""
    versions = f"numba {importlib.metadata.version('numba')} python {sys.version_info[:3]}"
    return f"{sorted(OPTIONS.items())!r} shortcuts {SHORTCUTS} {versions}"


def sources_digest(extra: Iterable[Path] = ()) -> str:
    """A digest of what runs are made of, of ``extra``, and of the compile options."""
    return sources.digest(extra, more=f"{_toolchain()} {sources.digest_of_runs()}")


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
    return cache_root() / sources.digest(parts, more=_toolchain()) / name


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
