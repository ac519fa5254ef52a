"""Names of all protocols; importing this imports no protocol, nor Numba or NumPy."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes.errors import UserError, meant

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# The group of entry points under which another package names the modules of its protocols.
ENTRY_POINTS: Final = "precedes.protocols"
FOLDER: Final = Path(__file__).parent / "protocols"


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all protocols, in alphabetical order: ours and those of other packages.

    Every file or package folder in our own folder is a protocol.
    """
    return tuple(sorted({*ours(), *installed()}))


@functools.cache
def ours() -> frozenset[str]:
    """The names of the protocols of this package."""
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    return frozenset(files | {path.parent.name for path in FOLDER.glob("*/__init__.py")})


@functools.cache
def installed() -> dict[str, list[EntryPoint]]:
    """Protocols of other packages, by the names of their entry points; ours keep their names."""
    from importlib.metadata import entry_points  # 20 ms that our own protocols do not need

    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name not in ours():
            entries.setdefault(entry.name, []).append(entry)
    return entries


def is_path(name: str) -> bool:
    """Return whether this means a file (``.py``) or package folder of the user's own."""
    if name in ours() or name in installed() or "\0" in name:
        return False
    return name.endswith(".py") or "/" in name or Path(name, "__init__.py").is_file()


def is_spec(name: str) -> bool:
    """Return whether this is a specification of our own, ``vcube.spec``: not in ``names``."""
    folder, _, module = name.rpartition(".")
    return module == "spec" and folder in ours() and (FOLDER / folder / "spec.py").is_file()


def check(name: str) -> None:
    """Raise UserError unless this is the name of a protocol or looks like a path to one."""
    if not is_spec(name) and name not in ours() and not is_path(name) and name not in names():
        hint = meant(name, names())
        raise UserError(f"there is no protocol {name!r}{hint}: choose one of {', '.join(names())}")
