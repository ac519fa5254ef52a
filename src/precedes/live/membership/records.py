"""Records of a membership, and their bytes.

All numbers are little endian. A record is

    kind     1
    epoch    4  0 while the group is founded
    fields      in the order of its class
    tagged      until the end: tag (1), length (4), value; unknown tags are ignored, in views
                preserved

A number has 1, 2, 4 or 8 bytes, a text or byte string its length (2, of payloads and views 4)
before it, a list or set the number of its items (4). Message ids are runs: position (2), first
sequence number (4), count (2).

A decoder trusts no count: a list takes no more items than there are bytes for, and ids expand to at
most ``ids_max``, so memory is bounded by the frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from precedes.errors import PeerError
from precedes.live.membership.learning import Label
from precedes.live.membership.values import LIFE_BYTES, MEMBERS_MAX, Ballot, Entry, Id, View

NAME_BYTES_MAX: Final = 64
NAME_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)
RUN_MAX: Final = (1 << 16) - 1


class Change(NamedTuple):
    """Request for a change, to the coordinator."""

    epoch: int


class Prepare(NamedTuple):
    """Phase 1 of a ballot."""

    epoch: int
    ballot: Ballot


class Reject(NamedTuple):
    """A higher ballot is promised already."""

    epoch: int
    ballot: Ballot


class Promise(NamedTuple):
    """Answer to PREPARE: the state of a member whose epoch is frozen."""

    epoch: int
    ballot: Ballot
    uid: int
    accepted_ballot: Ballot  # (0, 0) without an accepted view
    accepted: View | None
    delivered: tuple[int, ...]  # by position
    stable: tuple[int, ...]
    unstable: tuple[Id, ...]  # delivered above the stable prefix, in order of delivery
    suspects: frozenset[int]
    leaving: bool
    restored: bool  # has the state of the group, and may vote
    recovering: bytes  # its new life if it votes from its journal
    joiners: tuple[Entry, ...]  # their uids are still to be assigned


class Accept(NamedTuple):
    """Phase 2 of a ballot."""

    epoch: int
    ballot: Ballot
    view: View
    holders: tuple[frozenset[int], ...]  # by position: uids that have all bodies of the cut


class Accepted(NamedTuple):
    """Answer to ACCEPT: the view is accepted, and all bodies of its flush are here."""

    epoch: int
    ballot: Ballot
    uid: int


class Decided(NamedTuple):
    """The next view is decided."""

    epoch: int
    view: View


class Installed(NamedTuple):
    """The sender has installed the view of this epoch, or left with it.

    The first record of an epoch on a link, so it tells members of another group apart: a founder
    may be in the first views of two groups, and is a member of one of them.
    """

    epoch: int
    uid: int
    group: bytes


class Fetch(NamedTuple):
    """Request for bodies."""

    epoch: int
    ids: tuple[Id, ...]


class Bodies(NamedTuple):
    """Answer to FETCH: the bodies that are here."""

    epoch: int
    bodies: Mapping[Id, bytes]


class Excluded(NamedTuple):
    """The receiver is not a member any more."""

    epoch: int
    replaced: bool  # another process has its name


class Invite(NamedTuple):
    """Founding, phase 1: a founder asks whether the receiver is in a group."""

    epoch: int
    round: int
    life: bytes


class Fresh(NamedTuple):
    """Answer to INVITE: the sender is a founder and in no group."""

    epoch: int
    round: int
    life: bytes
    entry: Entry


class Confirm(NamedTuple):
    """Founding, phase 2: all founders were fresh."""

    epoch: int
    round: int
    life: bytes


class Confirmed(NamedTuple):
    """Answer to CONFIRM: the sender enters no other group for now."""

    epoch: int
    round: int
    life: bytes


class Founded(NamedTuple):
    """The group exists; this is its first view."""

    epoch: int
    round: int
    life: bytes
    view: View


class Join(NamedTuple):
    """Request of a process outside the group, to all that it has links with.

    The uid of its entry is 0: the view that admits it assigns one.
    """

    epoch: int
    entry: Entry
    lives: frozenset[bytes]  # that it has links with


Record = (
    Change | Prepare | Reject | Promise | Accept | Accepted | Decided | Installed | Fetch | Bodies
    | Excluded | Invite | Fresh | Confirm | Confirmed | Founded | Join
)  # fmt: skip


class _Input:
    """Bytes to decode, and where to go on."""

    def __init__(self, data: memoryview, ids_max: int) -> None:
        self.data, self.at, self.ids_max = data, 0, ids_max

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        start, self.at = self.at, self.at + layout.size
        if self.at > len(self.data):
            raise PeerError("a membership record is cut short")
        return layout.unpack_from(self.data, start)

    def take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise PeerError("a membership record is cut short")
        return bytes(self.data[start : self.at])


class _Codec(NamedTuple):
    """Writer and reader of values of one type."""

    write: Callable[[Any], bytes]
    read: Callable[[_Input], Any]


def _number(layout: str) -> _Codec:
    packed = struct.Struct(layout)
    return _Codec(packed.pack, lambda source: source.unpack(packed)[0])


U1, U2, U4, U8 = map(_number, ("<B", "<H", "<I", "<Q"))
_RUN: Final = struct.Struct("<HIH")
_TAGGED: Final = struct.Struct("<BI")
_BALLOT: Final = struct.Struct("<IQ")


def _flag(source: _Input) -> bool:
    value = U1.read(source)
    if value > 1:
        raise PeerError("a membership record is malformed", f"{value} where a flag is expected")
    return bool(value)


def _string(length: _Codec) -> _Codec:
    return _Codec(
        lambda data: length.write(len(data)) + data,
        lambda source: source.take(length.read(source)),
    )


def _items(item: _Codec, source: _Input) -> Iterator[Any]:
    for _ in range(U4.read(source)):
        if source.at >= len(source.data):
            raise PeerError("a membership record is cut short")
        yield item.read(source)


def _list(item: _Codec) -> _Codec:
    def write(values: Iterable[Any]) -> bytes:
        parts = [item.write(value) for value in values]
        return U4.write(len(parts)) + b"".join(parts)

    return _Codec(write, lambda source: tuple(_items(item, source)))


def _set(item: _Codec) -> _Codec:
    listed = _list(item)
    return _Codec(
        lambda values: listed.write(sorted(values)), lambda source: frozenset(_items(item, source))
    )


def _map(key: _Codec, value: _Codec) -> _Codec:
    def write(values: Mapping[Any, Any]) -> bytes:
        parts = [key.write(name) + value.write(values[name]) for name in sorted(values)]
        return U4.write(len(parts)) + b"".join(parts)

    pair = _Codec(write, lambda source: (key.read(source), value.read(source)))
    return _Codec(write, lambda source: dict(_items(pair, source)))


def _text(source: _Input) -> str:
    try:
        return source.take(U2.read(source)).decode()
    except UnicodeDecodeError:
        raise PeerError("a membership record is malformed", "a text is not UTF-8") from None


def is_name(name: str) -> bool:
    """Return whether this can be the name of a member."""
    return 0 < len(name) <= NAME_BYTES_MAX and NAME_CHARACTERS.issuperset(name)


def _name(source: _Input) -> str:
    name = _text(source)
    if not is_name(name):
        raise PeerError("a membership record is malformed", "a name of a member is not one")
    return name


def _write_ids(ids: Iterable[Id]) -> bytes:
    runs: list[list[int]] = []
    for position, sequence in ids:
        last = runs[-1] if runs else None
        if last and last[0] == position and last[1] + last[2] == sequence and last[2] < RUN_MAX:
            last[2] += 1
        else:
            runs.append([position, sequence, 1])
    return U4.write(len(runs)) + b"".join(_RUN.pack(*run) for run in runs)


def _read_ids(source: _Input) -> tuple[Id, ...]:
    ids: list[Id] = []
    for _ in range(U4.read(source)):
        position, first, count = source.unpack(_RUN)
        if len(ids) + count > source.ids_max:
            raise PeerError("a membership record names too many messages")
        ids += [(position, sequence) for sequence in range(first, first + count)]
    return tuple(ids)


def _write_fields(codecs: Iterable[_Codec], values: Iterable[Any]) -> bytes:
    return b"".join(codec.write(value) for codec, value in zip(codecs, values, strict=True))


def _tagged(source: _Input) -> bytes:
    """Skip tagged fields to the end, and return them."""
    start = source.at
    while source.at < len(source.data):
        _, length = source.unpack(_TAGGED)
        source.take(length)
    return bytes(source.data[start:])


def _write_view(view: View) -> bytes:
    fields = _write_fields(_VIEW.values(), (getattr(view, name) for name in _VIEW))
    return LONG_STRING.write(fields + view.more)


def _read_view(source: _Input) -> View:
    inner = _Input(memoryview(LONG_STRING.read(source)), source.ids_max)
    values = {name: codec.read(inner) for name, codec in _VIEW.items()}
    if len(values["entries"]) > MEMBERS_MAX:
        raise PeerError("a view has too many members")
    return View(**values, more=_tagged(inner))


def _write_optional_view(view: View | None) -> bytes:
    return LONG_STRING.write(b"") if view is None else _write_view(view)


def _read_optional_view(source: _Input) -> View | None:
    start = source.at
    if U4.read(source) == 0:
        return None
    source.at = start
    return _read_view(source)


LIFE: Final = _Codec(bytes, lambda source: source.take(LIFE_BYTES))
STRING: Final = _string(U2)
LONG_STRING: Final = _string(U4)
FLAG: Final = _Codec(lambda value: U1.write(bool(value)), _flag)
BALLOT: Final = _Codec(
    lambda ballot: _BALLOT.pack(*ballot), lambda source: Ballot(*source.unpack(_BALLOT))
)
TEXT: Final = _Codec(lambda text: STRING.write(text.encode()), _text)
NAME: Final = TEXT._replace(read=_name)
IDS: Final = _Codec(_write_ids, _read_ids)
VIEW: Final = _Codec(_write_view, _read_view)
OPTIONAL_VIEW: Final = _Codec(_write_optional_view, _read_optional_view)
UIDS: Final = _set(U8)
COUNTS: Final = _list(U4)
BY_UID: Final = _map(U8, U8)
ID: Final = _Codec(
    lambda name: U2.write(name[0]) + U4.write(name[1]),
    lambda source: (U2.read(source), U4.read(source)),
)

_ENTRY: Final = (U8, NAME, LIFE, TEXT, STRING, U2)  # in the order of ``Entry``
ENTRY: Final = _Codec(
    lambda entry: _write_fields(_ENTRY, entry),
    lambda source: Entry(*(codec.read(source) for codec in _ENTRY)),
)
_VIEW: Final = {
    "group": LIFE,
    "epoch": U4,
    "entries": _list(ENTRY),
    "voters": UIDS,
    "next_uid": U8,
    "ballot": BALLOT,
    "settings": LONG_STRING,
    "cut": COUNTS,
    "flush": IDS,
    "left": UIDS,
    "bases": BY_UID,
    "ended": BY_UID,
    "successors": BY_UID,
}
# Kinds, and the fields behind the epoch.
_KINDS: Final[dict[int, tuple[Any, tuple[_Codec, ...]]]] = {
    1: (Change, ()),
    2: (Prepare, (BALLOT,)),
    3: (Reject, (BALLOT,)),
    4: (
        Promise,
        (
            *(BALLOT, U8, BALLOT, OPTIONAL_VIEW, COUNTS, COUNTS, IDS),
            *(UIDS, FLAG, FLAG, STRING, _list(ENTRY)),
        ),
    ),
    5: (Accept, (BALLOT, VIEW, _list(UIDS))),
    6: (Accepted, (BALLOT, U8)),
    7: (Decided, (VIEW,)),
    8: (Installed, (U8, LIFE)),
    9: (Fetch, (IDS,)),
    10: (Bodies, (_map(ID, LONG_STRING),)),
    11: (Excluded, (FLAG,)),
    12: (Invite, (U4, LIFE)),
    13: (Fresh, (U4, LIFE, ENTRY)),
    14: (Confirm, (U4, LIFE)),
    15: (Confirmed, (U4, LIFE)),
    16: (Founded, (U4, LIFE, VIEW)),
    17: (Join, (ENTRY, _set(LIFE))),
}
_KIND_OF: Final = {record: kind for kind, (record, _) in _KINDS.items()}


def encode(record: Record, *, more: bytes = b"") -> bytes:
    """The bytes of a record; ``more`` are tagged fields of a later version."""
    kind = _KIND_OF[type(record)]
    codecs = (U4, *_KINDS[kind][1])
    return U1.write(kind) + _write_fields(codecs, record) + more


def encode_label(label: Label) -> bytes:
    """The bytes of the label of a state."""
    return U4.write(label.epoch) + BY_UID.write(label.counts)


def decode_label(data: memoryview) -> Label:
    """Read a label; PeerError if these bytes are not one."""
    source = _Input(data, 0)
    label = Label(U4.read(source), BY_UID.read(source))
    _tagged(source)
    return label


def decode(data: bytes | memoryview, *, ids_max: int) -> Record:
    """Read a whole record; PeerError if these bytes are not one."""
    source = _Input(memoryview(data), ids_max)
    kind = U1.read(source)
    if kind not in _KINDS:
        raise PeerError("a membership record is of an unknown kind", str(kind))
    record, codecs = _KINDS[kind]
    values = [codec.read(source) for codec in (U4, *codecs)]
    _tagged(source)
    instance: Record = record(*values)
    return instance
