"""How loops and their helpers are compiled; what the environment may switch, for tests."""

from __future__ import annotations

import os
from typing import Any, Final


def _switch(name: str, *, default: bool) -> bool:
    return os.environ.get(f"PRECEDES_{name}", str(int(default))) == "1"


# Every array is owned by the Python caller and nothing is allocated inside compiled code, so
# reference counts of arrays never matter there; leaving them out makes the event queue 3.5x
# faster. The option is private to Numba: a test compares runs with the switch on and off.
REFERENCE_COUNTING: Final = _switch("REFERENCE_COUNTING", default=False)

# Out-of-range indices raise instead of corrupting memory; for tests, at about half the speed.
BOUNDS_CHECKS: Final = _switch("BOUNDS_CHECKS", default=False)

# Shorter ways through the inside of Numba, which halve the time to compile; a test compares runs
# with the switch on and off.
SHORTCUTS: Final = _switch("SHORTCUTS", default=True)

# No fast-math: compiled and interpreted arithmetic must agree to the last bit.
OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "boundscheck": BOUNDS_CHECKS,
    **({} if REFERENCE_COUNTING else {"_nrt": False}),
}
# Helpers are called from compiled code alone; a C wrapper for each would cost a third of the
# time to compile.
HELPER: Final[dict[str, Any]] = {**OPTIONS, "no_cfunc_wrapper": True, "forceinline": False}
INLINED: Final[dict[str, Any]] = {**HELPER, "forceinline": True}
