"""``declare.prefetch`` in compiled code: an instruction for each cache line."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import extending
from numba.core import types

from precedes.compiled import options

CACHE_LINE_BYTES: Final = 64


@extending.intrinsic  # type: ignore[untyped-decorator]
def _fetch(typing: Any, table: Any, place: Any) -> Any:
    """Prefetch the line of the word at ``place``, counted from the first, for reading."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        line = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        reading, into_all_caches, data_cache = number(0), number(3), number(1)
        builder.call(fetch, [line, reading, into_all_caches, data_cache])
        return context.get_dummy_value()

    return types.void(table, types.intp), generate


def make_prefetch(body: Any) -> None:
    """Compile a function ``(table, row)`` to prefetch instructions, which do not block."""

    def choose(table: Any, row: Any) -> Any:
        step = CACHE_LINE_BYTES // (table.dtype.bitwidth // 8)
        if table.ndim == 1:
            return lambda table, row: _fetch(table, row)

        def fetch_row(table: Any, row: Any) -> None:
            width = table.shape[1]
            for x in range(0, width, step):
                _fetch(table, row * width + x)

        return fetch_row

    how = options.helper_options(inline=True)
    extending.overload(body, strict=False, jit_options=how)(choose)
