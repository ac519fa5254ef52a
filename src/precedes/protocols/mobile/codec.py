"""Bytes of the messages of ``mobile``, on the radio, on wires and on disks.

A message is its kind, one byte, and its fields in order. Integers are written seven bits a byte,
lowest first, with the sign in the lowest bit, so that a small number takes one byte; data are
their length and their bytes; a list is its length and its elements. Reading checks everything: what
is cut short, too long or of an unknown kind raises ``PeerError`` and is never half understood.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from precedes.contract import machines
from precedes.errors import PeerError

from . import messages
from .host import Disk

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
KIND_OF: Final = {kind: place for place, kind in enumerate(KINDS)}

Writer = Callable[[bytearray, Any], None]
Reader = Callable[[bytes, int], tuple[Any, int]]

# Bitmaps are the longest integers; a longer one is nobody's.
INTEGER_BYTES_MAX: Final = 4096


def write_integer(out: bytearray, value: int) -> None:
    """Append an integer of any size."""
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def read_integer(text: bytes, at: int) -> tuple[int, int]:
    """An integer and where the next field begins."""
    value = shift = 0
    for place in range(at, min(len(text), at + INTEGER_BYTES_MAX)):
        byte = text[place]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (~(value >> 1) if value & 1 else value >> 1), place + 1
    raise PeerError("a message is cut short in an integer")


def write_data(out: bytearray, value: bytes) -> None:
    """Append application data."""
    write_integer(out, len(value))
    out += value


def read_data(text: bytes, at: int) -> tuple[bytes, int]:
    """Application data and where the next field begins."""
    length, at = read_integer(text, at)
    if length < 0 or at + length > len(text):
        raise PeerError("a message is cut short in its data")
    return bytes(text[at : at + length]), at + length


class Layout(NamedTuple):
    """How to write and read one type."""

    write: Writer
    read: Reader


def _list_of(item: Layout) -> Layout:
    def write(out: bytearray, values: Any) -> None:
        write_integer(out, len(values))
        for value in values:
            item.write(out, value)

    def read(text: bytes, at: int) -> tuple[Any, int]:
        count, at = read_integer(text, at)
        if not 0 <= count <= len(text) - at:
            raise PeerError("a message is cut short in a list")
        values = []
        for _ in range(count):
            value, at = item.read(text, at)
            values.append(value)
        return tuple(values), at

    return Layout(write, read)


def _row_of(items: tuple[Layout, ...], make: Callable[[list[Any]], Any]) -> Layout:
    def write(out: bytearray, values: Any) -> None:
        for item, value in zip(items, values, strict=True):
            item.write(out, value)

    def read(text: bytes, at: int) -> tuple[Any, int]:
        values = []
        for item in items:
            value, at = item.read(text, at)
            values.append(value)
        return make(values), at

    return Layout(write, read)


def _optional(kinds: tuple[type, ...]) -> Layout:
    """One of several messages, or None."""

    def write(out: bytearray, value: Any) -> None:
        out += b"\xff" if value is None else encode(value)

    def read(text: bytes, at: int) -> tuple[Any, int]:
        if text[at : at + 1] == b"\xff":
            return None, at + 1
        value, end = _decode_at(text, at)
        if type(value) not in kinds:
            raise PeerError(f"a message holds a {type(value).__name__} where it must not")
        return value, end

    return Layout(write, read)


def layout_of(kind: Any) -> Layout:
    """The layout of a type: numbers, data, tuples, named tuples, and one message of several."""
    if kind in (int, bool):
        return Layout(write_integer, read_integer)
    if kind in (Any, bytes):
        return Layout(write_data, read_data)
    if isinstance(kind, types.UnionType):
        return _optional(tuple(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if parts[-1] is Ellipsis:
            return _list_of(layout_of(parts[0]))
        return _row_of(tuple(layout_of(part) for part in parts), tuple)
    hints = get_type_hints(kind)
    return _row_of(tuple(layout_of(hint) for hint in hints.values()), kind._make)


_LAYOUTS: Final = [layout_of(kind) for kind in KINDS]


def encode(message: Any) -> bytes:
    """The bytes of a message."""
    place = KIND_OF[type(message)]
    out = bytearray([place])
    _LAYOUTS[place].write(out, message)
    return bytes(out)


def decode(text: bytes) -> Any:
    """The message that these bytes are, all of them."""
    message, end = _decode_at(text, 0)
    if end != len(text):
        raise PeerError(f"a message has {len(text) - end} bytes too many")
    return message


def _decode_at(text: bytes, at: int) -> tuple[Any, int]:
    if at >= len(text) or text[at] >= len(KINDS):
        raise PeerError("a message is empty or of an unknown kind")
    return _LAYOUTS[text[at]].read(text, at + 1)


DISK: Final = layout_of(Disk)


def encode_disk(disk: Disk) -> bytes:
    """A host's disk as a record of a journal."""
    out = bytearray()
    DISK.write(out, disk)
    return bytes(out)


def decode_disk(text: bytes) -> Disk:
    """The disk that a record holds."""
    found, end = DISK.read(text, 0)
    if end != len(text):
        raise PeerError("a record of a host's disk has bytes too many")
    disk: Disk = found
    return disk
