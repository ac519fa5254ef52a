"""Bytes copied by one memmove, in versions of Numba whose internals are known."""

from __future__ import annotations

from typing import Any

from numba import extending
from numba.core import cgutils, types


@extending.intrinsic  # type: ignore[untyped-decorator]
def _move(typing: Any, target: Any, at: Any, source: Any, first: Any, count: Any) -> Any:
    """Move ``count`` bytes from ``source[first:]`` to ``target[at:]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, at, of, first, count = arguments
        kinds = signature.args
        ends = [
            builder.gep(context.make_array(kind)(context, builder, array).data, [index])
            for kind, array, index in ((kinds[0], to, at), (kinds[2], of, first))
        ]
        cgutils.raw_memmove(builder, *ends, count, 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate


def make_copy(body: Any) -> None:
    """Compile a function ``(source, first, target, at, count)`` to one memmove."""

    def choose(source: Any, first: Any, target: Any, at: Any, count: Any) -> Any:
        return lambda source, first, target, at, count: _move(target, at, source, first, count)

    options = {"no_cfunc_wrapper": True, "forceinline": True}
    extending.overload(body, strict=False, jit_options=options)(choose)
