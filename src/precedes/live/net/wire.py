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
    kind     1  DATA, ACK, PING, REFUSED, CONTROL or STATE
    number   8  DATA and CONTROL: 1, 2, ... on this link, continuing after a reconnection; STATE: 0,
                1, ... on this connection; else 0
    received 8  number of DATA and CONTROL frames of the other side that have arrived
    checksum 4  CRC-32 of the body
    epoch    4  DATA and CONTROL alone: of the view that the records belong to; CONTROL has 0
    check    4  CRC-32 of all before it: a wrong length is found out before its bytes are awaited
    body        DATA: records; CONTROL: a record of the membership; REFUSED: the reason as text;
                STATE: the label of the state of a group, then its chunks, at the end an empty one

A decoder never trusts a length or a number: malformed input is refused, its connection closed, and
the group continues. Corrupted bytes are not a violation: another connection is made, and
missing frames are sent again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from precedes.errors import PeerError, PrecedesError, UserError
from precedes.model import printable

try:  # the same sums in a tenth of the time
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32

MAGIC: Final = b"prcd"
# The versions that this build speaks.
LOWEST: Final = 3
HIGHEST: Final = 3
# Up to this version a HELLO had no range; a REFUSED frame was the same, so it is understood.
LAST_WITHOUT_RANGE: Final = 2

# Kinds of frames.
DATA: Final = 1
ACK: Final = 2
PING: Final = 3
REFUSED: Final = 4
CONTROL: Final = 5
STATE: Final = 6
NUMBERED: Final = (DATA, CONTROL)

_CHECKED: Final = struct.Struct("<IBQQI")
HEADER: Final = struct.Struct("<IBQQII")
_DATA_CHECKED: Final = struct.Struct("<IBQQII")
DATA_HEADER: Final = struct.Struct("<IBQQIII")
LENGTH_BYTES: Final = 4
CHECK_BYTES: Final = 4
# Bytes that the length counts in addition to the body.
OVERHEAD_BYTES: Final = HEADER.size - LENGTH_BYTES
DATA_OVERHEAD_BYTES: Final = DATA_HEADER.size - LENGTH_BYTES

_OPENING: Final = struct.Struct("<4sHHH")
_FIELD: Final = struct.Struct("<BH")
VERSIONS_END: Final = 8  # where the versions of a HELLO end
FIELDS_BYTES_MAX: Final = 60_000
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")  # of a member
ADDRESS_BYTES_MAX: Final = 255
MEMBERS_BYTES_MAX: Final = 1 << 15
# The fewest and the most bytes of the fields of a HELLO; tags are their places in ``Hello``.
SIZES: Final = (
    (1, 64), (0, 64), (16, 16), (16, 16), (16, 16), (8, 8), (1, ADDRESS_BYTES_MAX),
    (0, MEMBERS_BYTES_MAX), (0, 4),
)  # fmt: skip

REASON_BYTES_MAX: Final = 200

# Initial size of a connection's receive buffer.
BUFFER_BYTES: Final = 1 << 16

# Reasons to refuse a frame; the reasons for records come before.
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

    member: str  # its name
    target: str  # name of the member it means to speak to; empty: whoever answers, to be asked
    group: bytes  # 16 bytes: a digest of the configuration that all must share
    life: bytes  # 16 bytes: drawn when the member started; a restarted one has another
    known: bytes  # 16 bytes: the life of the other side that it has met, or zeros
    received: int  # DATA frames of the other side that have arrived in that life
    address: str  # where others dial it
    members: Sequence[tuple[str, str]] = ()  # an answer: names and addresses of other members
    state: int = 0  # a request for the state of the group: the first epoch of the learner

    def encode(self, *, lowest: int = LOWEST, highest: int = HIGHEST, more: bytes = b"") -> bytes:
        """The bytes to send, with as many ``members`` as fit; ``more`` are later fields."""
        values = [
            self.member.encode(), self.target.encode(), self.group, self.life, self.known,
            self.received.to_bytes(8, "little"), self.address.encode(), b"",
        ]  # fmt: skip
        for pair in self.members:
            texts = [text.encode() for text in pair]
            entry = b"".join(bytes([len(text)]) + text for text in texts)
            if len(values[-1]) + len(entry) > MEMBERS_BYTES_MAX:
                break
            values[-1] += entry
        if self.state:
            values.append(self.state.to_bytes(4, "little"))
        fields = more
        for tag, value in enumerate(values):
            fields += _FIELD.pack(tag, len(value)) + value
        data = _OPENING.pack(MAGIC, lowest, highest, len(fields)) + fields
        return data + crc32(data).to_bytes(CHECK_BYTES, "little")


def check_names(names: Sequence[object]) -> None:
    """UserError unless these are names of members, all different."""
    for number, name in enumerate(names):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UserError(
                f"the name of a member has 1 to 64 letters, digits or ._-, not {name!r:.80}"
            )
        if name in names[:number]:
            raise UserError(f"two members have the name {name}")


def hello_bytes(data: bytes | memoryview) -> int | None:
    """The size of the HELLO that begins here, None if too few bytes are there.

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
    """Read a whole HELLO; PeerError if these bytes are not one, Damaged if they are corrupted."""
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
    fields = [values.get(tag, b"") for tag in range(len(SIZES))]
    for tag, (value, (least, most)) in enumerate(zip(fields, SIZES, strict=True)):
        if not least <= len(value) <= most:
            raise PeerError("its handshake is malformed", f"field {tag} has {len(value)} bytes")
    member, target, group, life, known, received, address, members, state = fields
    return Hello(
        member=_text(member),
        target=_text(target),
        group=group,
        life=life,
        known=known,
        received=int.from_bytes(received, "little"),
        address=_text(address),
        members=_pairs(members),
        state=int.from_bytes(state, "little"),
    )


def _text(value: bytes) -> str:
    """A text of a HELLO; PeerError unless it is safe to be logged."""
    text = value.decode(errors="replace")
    if not text.isprintable() or text.encode() != value:
        raise PeerError("its handshake is malformed", f"{value!r:.80} is not a text")
    return text


def _pairs(data: bytes) -> tuple[tuple[str, str], ...]:
    """Names and addresses, each after a byte with its length."""
    texts, at = list[str](), 0
    while at < len(data):
        end = at + 1 + data[at]
        texts.append(_text(data[at + 1 : end]))
        at = end
    if at != len(data) or len(texts) % 2:
        raise PeerError("its handshake is malformed", "a member is cut short")
    return tuple(zip(texts[::2], texts[1::2], strict=True))


def frame(
    kind: int,
    number: int,
    received: int,
    body: bytes = b"",
    checksum: int | None = None,
    *,
    epoch: int = 0,
) -> bytes:
    """A frame; ``checksum`` is that of the body if it is known."""
    if checksum is None:
        checksum = crc32(body)
    if kind in NUMBERED:
        length = DATA_OVERHEAD_BYTES + len(body)
        head = _DATA_CHECKED.pack(length, kind, number, received, checksum, epoch)
    else:
        head = _CHECKED.pack(OVERHEAD_BYTES + len(body), kind, number, received, checksum)
    return head + crc32(head).to_bytes(CHECK_BYTES, "little") + body


def refusal(reason: str, *, code: int = 0) -> bytes:
    """A frame that states why this side closes the connection."""
    return frame(REFUSED, code, 0, reason.encode()[:REASON_BYTES_MAX])


def reason_in(body: bytes) -> str:
    """The reason that a refusal gives, safe to be logged."""
    return printable(body[:REASON_BYTES_MAX].decode(errors="replace"))


# Kind, number, received, epoch (0 if the kind has none), body.
Frame = tuple[int, int, int, int, memoryview]


class Frames:
    """Cuts a byte stream into frames, in the buffer that the operating system has filled.

    The buffer grows while an unfinished frame fills it, so that memory is spent on received bytes,
    not on a claimed length; it shrinks again when that frame has been taken.
    """

    def __init__(self, *, frame_max_bytes: int) -> None:
        self._max_bytes = frame_max_bytes
        self._view = memoryview(bytearray(BUFFER_BYTES))
        self._begin = self._end = 0  # of received bytes that are in no frame yet

    def room(self) -> memoryview:
        """The buffer for the next bytes; frames that ``advance`` returned are invalidated."""
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
        """Process received bytes: return the frames that they complete.

        PeerError for a length that is not allowed, Damaged for a checksum mismatch. No frame is
        returned then: all are sent again.
        """
        self._end += count
        frames = []
        view, at, end = self._view, self._begin, self._end
        while end - at >= HEADER.size:
            epoch = 0
            if view[at + LENGTH_BYTES] in NUMBERED:
                size = DATA_HEADER.size
                if end - at < size:
                    break
                length, kind, number, received, checksum, epoch, check = DATA_HEADER.unpack_from(
                    view, at
                )
            else:
                size = HEADER.size
                length, kind, number, received, checksum, check = HEADER.unpack_from(view, at)
            if crc32(view[at : at + size - CHECK_BYTES]) != check:
                raise Damaged
            if not size - LENGTH_BYTES <= length <= self._max_bytes:
                raise PeerError(REASONS[8])
            after = at + LENGTH_BYTES + length
            if after > end:
                break
            body = view[at + size : after]
            if crc32(body) != checksum:
                raise Damaged
            frames.append((kind, number, received, epoch, body))
            at = after
        self._begin = at
        return frames

    def unframed(self, count: int) -> memoryview:
        """Return the bytes received before there are frames: all that were not skipped."""
        self._end += count
        return self._view[self._begin : self._end]

    def skip(self, count: int) -> None:
        """Skip bytes before the first frame."""
        self._begin += count
