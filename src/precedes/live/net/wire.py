"""The wire format, version 3: frames over a byte stream; ``member.records`` has their contents.

All numbers are little endian. A connection begins with a HELLO of each side:

    magic    4  "prcd"
    lowest   2  the range of versions that this side speaks; the highest in both ranges is used
    highest  2
    length   2  of the fields, at most ``FIELDS_BYTES_MAX``
    fields      each: tag (1), length (2), value; unknown tags are ignored
    checksum 4  CRC-32 of all before it

After that, frames:

    length   4  bytes that follow, at most the group's ``frame_max_bytes``; a sender ends a frame
                before the record that would bring it beyond ``effects.FRAME_BYTES``, far below that
    kind     1  DATA, ACK, PING or REFUSED
    number   8  DATA: 1, 2, ... on this link, going on after a reconnection; else 0
    received 8  how many DATA frames of the other side have arrived
    checksum 4  CRC-32 of the body
    check    4  CRC-32 of all before it: a wrong length is found out before its bytes are awaited
    body        DATA: records; REFUSED: the reason as text

A decoder never trusts a length or a number: malformed input is refused, its connection closed, and
the group goes on. Corrupted bytes are nobody's mistake: another connection is made, and what is
missing is sent again.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from precedes.errors import PeerError, PrecedesError
from precedes.model import printable

try:  # the same sums in a tenth of the time
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32

MAGIC: Final = b"prcd"
# The versions that this build speaks.
LOWEST: Final = 3
HIGHEST: Final = 3
# Up to this version a HELLO had no range; frames were the same, so the refusal is understood.
LAST_WITHOUT_RANGE: Final = 2

# Kinds of frames.
DATA: Final = 1
ACK: Final = 2
PING: Final = 3
REFUSED: Final = 4

_CHECKED: Final = struct.Struct("<IBQQI")
HEADER: Final = struct.Struct("<IBQQII")
LENGTH_BYTES: Final = 4
CHECK_BYTES: Final = 4
# What the length counts beside the body.
OVERHEAD_BYTES: Final = HEADER.size - LENGTH_BYTES

_OPENING: Final = struct.Struct("<4sHHH")
_FIELD: Final = struct.Struct("<BH")
VERSIONS_END: Final = 8  # where the versions of a HELLO end
FIELDS_BYTES_MAX: Final = 1 << 12
# Tags of the fields of a HELLO, in the order of ``Hello``, and the layouts of their values.
LAYOUTS: Final = ("<H", "<H", "16s", "16s", "16s", "<Q")

REASON_BYTES_MAX: Final = 200

# Initial size of a connection's receive buffer.
BUFFER_BYTES: Final = 1 << 16

# Why a frame was refused; the reasons for records come before.
REASONS: Final = {
    8: "a frame is longer than allowed",
    9: "a frame is out of sequence",
    10: "a frame is of an unknown kind",
    11: "it acknowledges frames that were never sent",
}


class Damaged(PrecedesError):
    """A checksum mismatch: the bytes were corrupted in transit."""


class Hello(NamedTuple):
    """The handshake: the first bytes of each side of a connection."""

    member: int
    target: int  # the member it means to speak to
    group: bytes  # 16 bytes: a digest of the configuration that all must have in common
    life: bytes  # 16 bytes: drawn when the member started; a restarted one has another
    known: bytes  # 16 bytes: the life of the other side that it has met, or zeros
    received: int  # DATA frames of the other side that have arrived in that life

    def encode(self, *, lowest: int = LOWEST, highest: int = HIGHEST, more: bytes = b"") -> bytes:
        """The bytes to send; ``more`` are fields of a later version."""
        fields = more
        for tag, (layout, value) in enumerate(zip(LAYOUTS, self, strict=True)):
            fields += _FIELD.pack(tag, struct.calcsize(layout)) + struct.pack(layout, value)
        data = _OPENING.pack(MAGIC, lowest, highest, len(fields)) + fields
        return data + crc32(data).to_bytes(CHECK_BYTES, "little")


def hello_bytes(data: bytes | memoryview) -> int | None:
    """The size of the HELLO that begins here, None if too little of it is there to know.

    PeerError if this side does not speak its versions, or if it is too long.
    """
    if len(data) < VERSIONS_END:
        return None
    lowest, highest = struct.unpack_from("<HH", data, len(MAGIC))
    if lowest <= LAST_WITHOUT_RANGE:
        highest = lowest
    if highest < LOWEST or lowest > HIGHEST:
        theirs = f"version {lowest}" if lowest == highest else f"versions {lowest} to {highest}"
        raise PeerError("it speaks another version", f"{theirs}, this member {LOWEST}")
    if len(data) < _OPENING.size:
        return None
    length = int.from_bytes(data[VERSIONS_END : _OPENING.size], "little")
    if length > FIELDS_BYTES_MAX:
        raise PeerError("its handshake is too long")
    return _OPENING.size + length + CHECK_BYTES


def decode_hello(data: bytes) -> Hello:
    """Read a whole HELLO; PeerError if these bytes are not one, Damaged if they were changed."""
    if data[: len(MAGIC)] != MAGIC:
        raise PeerError("it does not speak this protocol")
    if len(data) != hello_bytes(data):
        raise PeerError("its handshake has another length")
    if crc32(data[:-CHECK_BYTES]) != int.from_bytes(data[-CHECK_BYTES:], "little"):
        raise Damaged
    values, at, end = dict[int, bytes](), _OPENING.size, len(data) - CHECK_BYTES
    while at + _FIELD.size <= end:
        tag, size = _FIELD.unpack_from(data, at)
        at += _FIELD.size
        values[tag] = data[at : at + size]
        at += size
    if at != end:
        raise PeerError("its handshake is malformed", "a field is cut short")
    found: list[Any] = []
    for tag, layout in enumerate(LAYOUTS):
        value = values.get(tag, b"")
        if len(value) != struct.calcsize(layout):
            raise PeerError("its handshake is malformed", f"field {tag} has {len(value)} bytes")
        found += struct.unpack(layout, value)
    return Hello(*found)


def frame(
    kind: int, number: int, received: int, body: bytes = b"", checksum: int | None = None
) -> bytes:
    """A frame; ``checksum`` is that of the body if it is known."""
    if checksum is None:
        checksum = crc32(body)
    head = _CHECKED.pack(OVERHEAD_BYTES + len(body), kind, number, received, checksum)
    return head + crc32(head).to_bytes(CHECK_BYTES, "little") + body


def refusal(reason: str, *, code: int = 0) -> bytes:
    """A frame that states why this side closes the connection."""
    return frame(REFUSED, code, 0, reason.encode()[:REASON_BYTES_MAX])


def reason_in(body: bytes) -> str:
    """The reason that a refusal gives, safe to be logged."""
    return printable(body[:REASON_BYTES_MAX].decode(errors="replace"))


Frame = tuple[int, int, int, memoryview]


class Frames:
    """Cuts a byte stream into frames, in the buffer that the operating system has filled.

    The buffer grows while an unfinished frame fills it, so that memory is spent on what has come,
    not on what a length claims; it is given back when that frame has been taken.
    """

    def __init__(self, *, frame_max_bytes: int) -> None:
        self._max_bytes = frame_max_bytes
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._begin = self._end = 0  # of what has come and is in no frame yet

    def room(self) -> memoryview:
        """Where the next bytes go; frames that ``advance`` returned are no longer there."""
        view, begin, end = self._view, self._begin, self._end
        if begin == end or 4 * (len(view) - end) < len(view):
            kept = view[begin:end]
            if 2 * len(kept) > len(view):
                self._view = memoryview(bytearray(2 * len(view)))
            elif 2 * len(kept) <= BUFFER_BYTES < len(view):
                self._view = memoryview(bytearray(BUFFER_BYTES))
            self._begin, self._end = 0, len(kept)
            self._view[: self._end] = kept
        return self._view[self._end :]

    def advance(self, count: int) -> list[Frame]:
        """So many bytes have come: the frames that they complete.

        Each is (kind, number, received, body); PeerError for a length that is not allowed,
        Damaged for a checksum mismatch. No frame is returned then: all are sent again.
        """
        self._end += count
        found = []
        view, at, end = self._view, self._begin, self._end
        while end - at >= HEADER.size:
            length, kind, number, received, checksum, check = HEADER.unpack_from(view, at)
            if crc32(view[at : at + _CHECKED.size]) != check:
                raise Damaged
            if not OVERHEAD_BYTES <= length <= self._max_bytes:
                raise PeerError(REASONS[8])
            after = at + LENGTH_BYTES + length
            if after > end:
                break
            body = view[at + HEADER.size : after]
            if crc32(body) != checksum:
                raise Damaged
            found.append((kind, number, received, body))
            at = after
        self._begin = at
        return found

    def unframed(self, count: int) -> memoryview:
        """So many bytes have come before there are frames: all that were not skipped."""
        self._end += count
        return self._view[self._begin : self._end]

    def skip(self, count: int) -> None:
        """Frames begin behind so many bytes."""
        self._begin += count
