"""How loops and their helpers are compiled: the version of Numba and the environment decide.

Numba itself is not imported: where compiled code is kept depends on all of this, and is asked
for by runs that need no compiler.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from typing import Any, Final, NamedTuple

# Versions of Numba that were run, from the first to before the last, as pyproject.toml has them.
# In any other nothing is used that is private to Numba, which is slower.
TESTED: Final = ((0, 60), (0, 69))

# Of these, the ones whose code generator is as shortcuts.py expects it.
SHORTENED: Final = ((0, 62), (0, 69))


class Switches(NamedTuple):
    """What ``PRECEDES_<NAME>``, 0 or 1, turns off or on, for tests; caches differ by all of it."""

    # Every array is owned by the Python caller and nothing is allocated inside compiled code, so
    # reference counts of arrays never matter there; leaving them out makes the event queue 3.5x
    # faster.
    reference_counting: bool = False
    # Out-of-range indices raise instead of corrupting memory, at about half the speed.
    bounds_checks: bool = False
    # Names and options that are private to Numba: what follows here, options that are documented
    # nowhere, and files of our own for compiled code. Off is as with a version never tried.
    private: bool = True
    # Shorter ways through the inside of Numba, which halve the time to compile.
    shortcuts: bool = True
    # Tuples of arrays handed over by reference, to loops that want it.
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
    """The version of Numba that is installed: a look at a file of a few lines."""
    return importlib.metadata.version("numba")


def _is_in(versions: tuple[tuple[int, int], tuple[int, int]]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", numba_version())
    return found is not None and versions[0] <= (int(found[1]), int(found[2])) < versions[1]


def uses_private() -> bool:
    """Whether anything private to Numba is used."""
    return SWITCHES.private and _is_in(TESTED)


def uses_shortcuts() -> bool:
    """Whether ``shortcuts`` is."""
    return SWITCHES.shortcuts and uses_private() and _is_in(SHORTENED)


def uses_references() -> bool:
    """Whether ``pointers`` is, if arrays are laid out as it expects."""
    return SWITCHES.references and uses_private()


def helper_options(*, inline: bool) -> dict[str, Any]:
    """How Numba compiles a helper; a loop that Python calls is compiled like one out of line.

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
    """What compiled code depends on beside its sources."""
    used = (uses_private(), uses_shortcuts(), uses_references())
    versions = f"numba {numba_version()} python {sys.version_info[:3]}"
    return f"{SWITCHES} {helper_options(inline=True)} {used} {versions}"
