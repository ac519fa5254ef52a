"""Tiers: whether a loop runs interpreted or as machine code, with the same results.

Loops of an audit are called for little work and for much, so ``paced`` chooses for each call.
"""

from __future__ import annotations

import functools
import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, Literal, ParamSpec, TypeVar, get_args

from precedes.compiled.compiler import code_of, tell_failure
from precedes.compiled.entry import Entry
from precedes.errors import InternalError, UserError

P = ParamSpec("P")
R = TypeVar("R")

# "auto": compiled if there is machine code; else interpreted at first, and compiled as soon as a
# compiler has made it. "compiled": wait for the compiler.
Tier = Literal["auto", "compiled", "interpreted"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)

# The meaning of "auto" unless a caller overrides it.
VARIABLE: Final = "PRECEDES_TIER"

# The loops of an audit take 11 CPU-seconds to compile, and 10 us a row or a few times that when
# interpreted. Work that has taken this long is likely to take longer than a compiler.
INTERPRETED_CPU_S: Final = 3.0
# After this long a compiler is started, for the next audit.
BEGIN_CPU_S: Final = 0.5
# Calls with more rows than this do not start interpreted.
ROWS_MAX: Final = 1 << 17

# CPU-seconds of interpreted loops in this process, by label.
_spent_s: Final[defaultdict[str, float]] = defaultdict(float)
# Loops that this process has loaded.
_compiled: Final[dict[Entry[..., Any], Callable[..., Any]]] = {}


def resolve(tier: str) -> Tier:
    """The tier to use for a requested one."""
    if tier not in TIERS:
        raise UserError(f"tier must be one of {', '.join(TIERS)}, not {tier!r}")
    if tier == "auto":
        tier = os.environ.get(VARIABLE) or "auto"
        if tier not in TIERS:
            raise UserError(f"{VARIABLE} must be one of {', '.join(TIERS)}, not {tier!r}")
    return tier


def paced(entry: Entry[P, R], *, rows: int = 0) -> Callable[P, R]:
    """The form of a loop for a call with this number of rows, interpreted while that is faster.

    It is compiled if there is machine code, if loops with its label have taken long, or if the
    tier requires it; it then waits for the compiler, with a line that says so.
    """
    tier = resolve("auto")
    if tier == "interpreted":
        return entry.interpreted
    if entry in _compiled:
        return _compiled[entry]
    is_worth_it = rows > ROWS_MAX or _spent_s[entry.label] > INTERPRETED_CPU_S
    if tier == "compiled" or is_worth_it or code_of(entry).is_cached():
        return functools.partial(_compile, entry, tier)
    return functools.partial(_interpret, entry)


def _compile(entry: Entry[P, R], tier: Tier, *arguments: P.args, **none: P.kwargs) -> R:
    code = code_of(entry)
    try:
        body = code.wait(*arguments)
    except InternalError:
        if tier == "compiled":
            raise
        tell_failure(code, entry.label)
        body = entry.interpreted
    _compiled[entry] = body
    return body(*arguments, **none)


def _interpret(entry: Entry[P, R], *arguments: P.args, **none: P.kwargs) -> R:
    begin_s = time.process_time()
    try:
        return entry.interpreted(*arguments, **none)
    finally:
        _spent_s[entry.label] += time.process_time() - begin_s
        if _spent_s[entry.label] > BEGIN_CPU_S:
            code_of(entry).begin()
