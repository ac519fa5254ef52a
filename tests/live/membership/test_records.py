"""The codec of membership records: golden bytes, tagged fields, malformed input."""

import random
import re
import struct
from pathlib import Path

import pytest

from precedes.errors import PeerError
from precedes.live.membership import records
from precedes.live.membership.records import decode, encode
from precedes.live.membership.values import Ballot, Entry, View, check_view
from tests.support.seeds import FIRST

GOLDEN = Path(__file__).with_name("golden.txt")
IDS_MAX = 1000
LIFE = bytes(range(16))
TAGGED = struct.pack("<BI", 200, 3) + b"new"


def view(epoch=2, **changes):
    """A view of three."""
    entries = (
        Entry(1, "a", b"a" * 16, "a.example:7000", b"", 3),
        Entry(4, "orders-1", b"b" * 16, "[::1]:7000", b"j" * 16, 3),
        Entry(3, "c", b"c" * 16, "", b"", 3),
    )
    values = {
        "group": b"g" * 16, "epoch": epoch, "entries": entries, "voters": frozenset({1, 3}),
        "next_uid": 6, "ballot": Ballot(2, 3), "settings": b"{}", "cut": (5, 0, 7),
        "flush": ((0, 4), (0, 5), (2, 7)), "left": frozenset({2}), "bases": {1: 5, 3: 0, 4: 12},
        "ended": {2: 9}, "successors": {1: 1, 5: 4},
    }  # fmt: skip
    return View(**{**values, **changes})


MANY = tuple(Entry(uid, f"m{uid}", uid.to_bytes(16, "big")) for uid in range(1, 1026))


def samples():
    """A record of every kind."""
    ballot, entry = Ballot(7, 3), Entry(0, "d", b"d" * 16, "d:1", b"", 3)
    promise = records.Promise(
        epoch=1, ballot=ballot, uid=4, accepted_ballot=Ballot(2, 3), accepted=view(),
        delivered=(3, 0, 9), stable=(1, 0, 8), unstable=((0, 2), (2, 9), (0, 3)),
        suspects=frozenset({3}), leaving=True, restored=True, recovering=LIFE, joiners=(entry,),
    )  # fmt: skip
    return [
        records.Change(1),
        records.Prepare(1, ballot),
        records.Reject(1, ballot),
        promise,
        promise._replace(accepted=None, accepted_ballot=Ballot(0, 0), recovering=b"", joiners=()),
        records.Accept(1, ballot, view(), (frozenset({1}), frozenset(), frozenset({3, 4}))),
        records.Accepted(1, ballot, 3),
        records.Decided(1, view(more=TAGGED)),
        records.Installed(2, 3, b"g" * 16),
        records.Fetch(1, ((0, 1), (0, 2), (0, 3), (1, 1))),
        records.Bodies(1, {(0, 1): b"body", (2, 9): b""}),
        records.Excluded(1, True),
        records.Invite(0, 3, LIFE),
        records.Fresh(0, 3, LIFE, entry),
        records.Confirm(0, 3, LIFE),
        records.Confirmed(0, 3, LIFE),
        records.Founded(0, 3, LIFE, view(1)),
        records.Join(0, entry, frozenset({LIFE, b"a" * 16})),
    ]


def test_golden_bytes():
    """Records of this wire version; after a change of the format, raise the version."""
    lines = [f"{type(record).__name__} {encode(record).hex()}\n" for record in samples()]
    assert "".join(lines) == GOLDEN.read_text()
    assert {type(record) for record in samples()} == set(records.Record.__args__)


@pytest.mark.parametrize("record", samples(), ids=lambda record: type(record).__name__)
def test_unknown_tags(record):
    """Fields of a later version: ignored in records, preserved in views."""
    assert decode(encode(record, more=TAGGED), ids_max=IDS_MAX) == record
    found = decode(encode(records.Decided(1, view(more=TAGGED))), ids_max=IDS_MAX)
    assert found.view.more == TAGGED


def test_a_codec_that_stops_at_an_unknown_tag_is_convicted(monkeypatch):
    def known_tags(source):
        if source.at < len(source.data):
            raise PeerError("an unknown tag")
        return b""

    monkeypatch.setattr(records, "_tagged", known_tags)
    for record in samples():
        with pytest.raises(PeerError, match="an unknown tag"):
            test_unknown_tags(record)


@pytest.mark.parametrize("record", samples(), ids=lambda record: type(record).__name__)
def test_every_cut_is_refused(record):
    data = encode(record)
    for size in range(len(data)):
        with pytest.raises(PeerError, match="cut short"):
            decode(data[:size], ids_max=IDS_MAX)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x00" + bytes(4), "unknown kind"),
        (encode(records.Change(1)) + b"\x01\x05\x00\x00\x00", "cut short"),
        (encode(records.Excluded(1, False))[:-1] + b"\x02", "malformed"),
        (encode(records.Fresh(0, 1, LIFE, Entry(0, "a b", LIFE))), "name of a member"),
        (encode(records.Fresh(0, 1, LIFE, Entry(0, "", LIFE))), "name of a member"),
        (encode(records.Fresh(0, 1, LIFE, Entry(0, "a" * 65, LIFE))), "name of a member"),
        (encode(records.Fresh(0, 1, LIFE, Entry(0, "a", LIFE, "xy"))).replace(b"xy", b"\xff\xfe"),
         "malformed"),
        (encode(records.Fetch(1, tuple((0, s) for s in range(IDS_MAX + 1)))), "too many messages"),
        (encode(records.Fetch(1, ()))[:-4] + b"\xff" * 4, "cut short"),
        (encode(records.Join(0, Entry(0, "a b", LIFE), frozenset())), "name of a member"),
        (encode(records.Join(0, Entry(0, "a", LIFE), frozenset()))[:-4] + b"\xff" * 4, "cut short"),
        (encode(records.Decided(1, view(entries=MANY))), "too many members"),
    ],
)  # fmt: skip
def test_malformed_records_are_refused(data, what):
    with pytest.raises(PeerError, match=what):
        decode(data, ids_max=IDS_MAX)


def test_the_view_of_the_samples_is_possible():
    check_view(view())


TWICE = Entry(9, "z", b"z" * 16)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"entries": ()}, "number of its members"),
        ({"next_uid": 4}, "a uid is impossible"),
        ({"entries": (Entry(0, "a", LIFE),)}, "a uid is impossible"),
        ({"entries": (TWICE, TWICE._replace(name="y", life=LIFE)), "next_uid": 10}, "uid occurs"),
        ({"entries": (TWICE, TWICE._replace(uid=8, life=LIFE)), "next_uid": 10}, "name occurs"),
        ({"entries": (TWICE, TWICE._replace(uid=8, name="y")), "next_uid": 10}, "life occurs"),
        ({"voters": frozenset()}, "voters are not members"),
        ({"voters": frozenset({2})}, "voters are not members"),
        ({"bases": {1: 5, 3: 0}}, "counts are not those"),
        ({"successors": {1: 2}}, "successor is not a member"),
        ({"left": frozenset({1})}, "a member has ended"),
        ({"ended": {3: 1}}, "a member has ended"),
        ({"flush": ((0, 4), (0, 4))}, "flushed twice"),
    ],
)
def test_an_impossible_view_is_refused(changes, what):
    with pytest.raises(PeerError) as caught:
        check_view(view(**changes))
    assert re.search(what, f"{caught.value} {caught.value.args}"), caught.value.args


def damaged(rng, data):
    """Bytes like these: some changed, left out, repeated or cut off."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2:
                data[at:at] = data[max(0, at - rng.randint(1, 40)) : at]
            case 3:
                data[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\0\0\0\x80"])
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def fuzz(seed, count):
    """Damaged records are refused, or read like others. Return how many are read."""
    rng, known = random.Random(f"records {seed}"), [encode(record) for record in samples()]
    read = 0
    for _ in range(count):
        data = damaged(rng, rng.choice(known))
        try:
            record = decode(data, ids_max=IDS_MAX)
        except PeerError:
            continue
        read += 1
        again = encode(record)
        assert decode(again, ids_max=IDS_MAX) == record, data.hex()
        assert len(again) <= 3 * len(data) + 64, data.hex()
    return read


@pytest.mark.swarm
@pytest.mark.parametrize("part", range(10))
def test_a_million_damaged_records(part):
    assert fuzz(FIRST + part, 100_000) > 0


def test_damaged_records():
    count = 10_000
    assert 0 < fuzz(0, count) < count
