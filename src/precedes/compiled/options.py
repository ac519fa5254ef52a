"""Compile options of loops and their helpers, from the version of Numba and the environment.

Numba itself is not imported: the path of the cache depends on all of this, also in runs that
need no compiler.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from typing import Any, Final, NamedTuple

# Versions of Numba that were run, from the first to before the last, as pyproject.toml has them.
# With any other version nothing is used that is private to Numba, which is slower.
TESTED: Final = ((0, 60), (0, 69))

# Of these, the ones whose code generator is as shortcuts.py expects it.
SHORTENED: Final = ((0, 62), (0, 69))


class Switches(NamedTuple):
    """Options that ``PRECEDES_<NAME>``, 0 or 1, turns off or on, for tests; all are cache keys."""

    # Every array is owned by the Python caller and nothing is allocated inside compiled code, so
    # reference counts of arrays never matter there; leaving them out makes the event queue 3.5x
    # faster.
    reference_counting: bool = False
    # Out-of-range indices raise instead of corrupting memory, at about half the speed.
    bounds_checks: bool = False
    # Names and options that are private to Numba: the options below, options without
    # documentation, and our own cache files. Off is the same as an untested version.
    private: bool = True
    # Shortcuts through Numba's internals, which halve the time to compile.
    shortcuts: bool = True
    # Tuples of arrays passed by reference, to loops that declare it.
    references: bool = True


def _read_switches() -> Switches:
    defaults = Switches()._asdict()
    return Switches(
        **{
            name: os.environ.get(f"PRECEDES_{name.upper()}", str(int(default))) == "1"
            for name, default in defaults.items()
        }
    )


SWITCHES: Final = _read_switches()


@functools.cache
def numba_version() -> str:
    """The installed version of Numba, read from a file of a few lines."""
    return importlib.metadata.version("numba")


def _is_in(versions: tuple[tuple[int, int], tuple[int, int]]) -> bool:
    match = re.match(r"(\d+)\.(\d+)", numba_version())
    return match is not None and versions[0] <= (int(match[1]), int(match[2])) < versions[1]


def uses_private() -> bool:
    """Return whether anything private to Numba is used."""
    return SWITCHES.private and _is_in(TESTED)


def uses_shortcuts() -> bool:
    """Return whether ``shortcuts`` is used."""
    return SWITCHES.shortcuts and uses_private() and _is_in(SHORTENED)


def uses_references() -> bool:
    """Return whether ``pointers`` is used: only if arrays are laid out as it expects."""
    return SWITCHES.references and uses_private()


def helper_options(*, inline: bool) -> dict[str, Any]:
    """Numba's options for a helper; a loop that Python calls is compiled like one out of line.

    No fast-math: compiled and interpreted arithmetic must agree to the last bit.
    """
    options = {"error_model": "numpy", "boundscheck": SWITCHES.bounds_checks}
    if uses_private():
        if not SWITCHES.reference_counting:
            options["_nrt"] = False
        # Helpers are called from compiled code alone; a C wrapper for each would cost a third of
        # the time to compile.
        options |= {"no_cfunc_wrapper": True, "forceinline": inline}
    return options


@functools.cache
def toolchain() -> str:
    """Everything but its sources that compiled code depends on."""
    used = (uses_private(), uses_shortcuts(), uses_references())
    versions = f"numba {numba_version()} python {sys.version_info[:3]}"
    return f"{SWITCHES} {helper_options(inline=True)} {used} {versions}"
