"""Encoding of the messages of ``mobile``, which determines their size on the radio and on wires.

A message is its kind, one byte, and its fields in order. Integers are written seven bits a byte,
lowest first, with the sign in the lowest bit, so that a small number takes one byte; data are
their length and their bytes; a list is its length and its elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args, get_origin, get_type_hints

from precedes.contract import machines

from . import messages

# The place in this list is the kind on the wire: only ever append.
KINDS: Final[tuple[type, ...]] = (
    messages.Join,
    messages.Init,
    messages.FromHost,
    messages.HostAck,
    messages.Leave,
    messages.FromStation,
    messages.CatchUp,
    messages.InitAck,
    messages.StationAck,
    messages.LeaveAck,
    machines.Flood,
    messages.Request,
    messages.Cancel,
    messages.Joined,
    messages.Left,
    messages.Grant,
    messages.Want,
    messages.Handover,
)

_Writer = Callable[[bytearray, Any], None]


def _write_integer(out: bytearray, value: int) -> None:
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _write_data(out: bytearray, value: bytes) -> None:
    _write_integer(out, len(value))
    out += value


def _list_of(write_item: _Writer) -> _Writer:
    def write(out: bytearray, values: Any) -> None:
        _write_integer(out, len(values))
        for value in values:
            write_item(out, value)

    return write


def _row_of(writers: list[_Writer]) -> _Writer:
    def write(out: bytearray, values: Any) -> None:
        for write_item, value in zip(writers, values, strict=True):
            write_item(out, value)

    return write


def _writer_of(kind: Any) -> _Writer:
    """The encoder of a type: numbers, data, tuples and named tuples."""
    if kind in (int, bool):
        return _write_integer
    if kind in (Any, bytes):
        return _write_data
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if parts[-1] is Ellipsis:
            return _list_of(_writer_of(parts[0]))
        return _row_of([_writer_of(part) for part in parts])
    return _row_of([_writer_of(hint) for hint in get_type_hints(kind).values()])


_WRITERS: Final = {kind: (place, _writer_of(kind)) for place, kind in enumerate(KINDS)}


def encode(message: Any) -> bytes:
    """The bytes of a message."""
    place, write = _WRITERS[type(message)]
    out = bytearray([place])
    write(out, message)
    return bytes(out)
