"""Bodies of live frames taken apart and put together again, by the layout that is documented.

Nothing here comes from the package: what stands at the top of ``live/member/records.py`` is written
down a second time, for tests that judge bytes or forge them.
"""

import struct
from dataclasses import dataclass

PACKET, UP, DOWN = 1, 2, 3
MESSAGE, REFERENCE, NUMBER = range(3)
KINDS = {PACKET, UP, DOWN}
# What follows the kind of a record of a fixed size.
FIXED = {UP: "<HIH", DOWN: "<HIB"}


@dataclass
class Item:
    """A message, a reference or a number; what it is not is None."""

    tag: int
    number: int | None = None
    source: int | None = None
    sequence: int | None = None
    fields: list[list[int]] | None = None
    payload: bytes | None = None


@dataclass
class Record:
    """``values`` are those of a fixed size."""

    kind: int
    values: tuple[int, ...] = ()
    items: list[Item] | None = None


class Layout:
    """The layout of bodies of a group: the classes of its items, and the fields of a message."""

    def __init__(self, protocol):
        self.classes = [*protocol.items, NUMBER, NUMBER, NUMBER]  # the last are the detector's
        self.fields = len(protocol.message_fields) or 1  # one of no words stands for none

    def parse(self, body):
        """The records of a body; it must end where one ends."""
        records, at = [], 0
        while at < len(body):
            record, at = self._record(body, at)
            records.append(record)
        assert at == len(body)
        return records

    def build(self, records):
        """The body of these records, however wrong they are."""
        return b"".join(map(self._bytes, records))

    def _record(self, body, at):
        kind = body[at]
        at += 1
        if kind in FIXED:
            layout = struct.Struct(FIXED[kind])
            return Record(kind, layout.unpack_from(body, at)), at + layout.size
        assert kind == PACKET, f"there is no record {kind}"
        (count,) = struct.unpack_from("<H", body, at)
        at += 2
        items = []
        for _ in range(count):
            item, at = self._item(body, at)
            items.append(item)
        return Record(kind, items=items), at

    def _item(self, body, at):
        tag = body[at]
        at += 1
        if self.classes[tag] == NUMBER:
            return Item(tag, *struct.unpack_from("<q", body, at)), at + 8
        source, sequence = struct.unpack_from("<HI", body, at)
        at += 6
        if self.classes[tag] == REFERENCE:
            return Item(tag, source=source, sequence=sequence), at
        fields = []
        for _ in range(self.fields):
            words, at = _read_words(body, at)
            fields.append(words)
        (length,) = struct.unpack_from("<I", body, at)
        at += 4
        payload = body[at : at + length]
        return Item(tag, None, source, sequence, fields, payload), at + length

    def _bytes(self, record):
        head = bytes([record.kind & 0xFF])
        if record.kind in FIXED:
            return head + struct.pack(FIXED[record.kind], *record.values)
        if record.items is None:
            return head
        items = b"".join(map(_item_bytes, record.items))
        packet = struct.pack("<BH", PACKET, len(record.items)) + items
        return packet


def _item_bytes(item):
    data = bytes([item.tag & 0xFF])
    if item.number is not None:
        return data + struct.pack("<q", item.number)
    data += struct.pack("<HI", item.source, item.sequence)
    if item.fields is not None:
        data += b"".join(map(_words_bytes, item.fields))
        data += struct.pack("<I", len(item.payload)) + item.payload
    return data


def _read_words(body, at):
    (count,) = struct.unpack_from("<H", body, at)
    at += 2
    words = []
    for _ in range(count):
        word = shift = 0
        while True:
            byte = body[at]
            at += 1
            word |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        words.append(word >> 1 if word % 2 == 0 else -(word + 1 >> 1))
    return words, at


def _words_bytes(words):
    data = bytearray(struct.pack("<H", len(words)))
    for word in words:
        left = 2 * word if word >= 0 else -2 * word - 1
        while left > 0x7F:
            data.append(left & 0x7F | 0x80)
            left >>= 7
        data.append(left)
    return bytes(data)
