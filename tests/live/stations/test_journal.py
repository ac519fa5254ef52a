"""Journals: a crash at any byte leaves the state before or after, never a mixture."""

import os

import pytest

from precedes.errors import UserError
from precedes.live.stations.journal import HEADER, MAGIC, Journal, frame, parse
from precedes.protocols.mobile.codec import decode_disk, encode_disk
from precedes.protocols.mobile.host import Disk

STATES = [
    Disk(session=1, birth=1, mode=1),
    Disk(session=1, birth=1, mode=2, last=1, next_stamp=7),
    Disk(session=2, birth=1, mode=2, last=2, caught_up=3, unacknowledged=((0, b"x"), (1, b"yz"))),
    Disk(session=900, birth=1, mode=3, previous=1, number=2, leave_wanted=True),
]


def journal_of(path, states):
    with Journal(path, sync=False) as journal:
        for state in states:
            journal.append(encode_disk(state))
    return path.read_bytes()


def test_a_crash_at_any_byte_leaves_a_whole_state(tmp_path):
    """What is read is the state of the last record that is there to its last byte."""
    text = journal_of(tmp_path / "full", STATES)
    ends = [len(MAGIC)]
    for state in STATES:
        ends.append(ends[-1] + len(frame(encode_disk(state))))
    assert ends[-1] == len(text)
    torn = tmp_path / "torn"
    for length in range(len(text) + 1):
        torn.write_bytes(text[:length])
        with Journal(torn, sync=False) as journal:
            states = [decode_disk(record) for record in journal.records]
            assert states == STATES[: sum(end <= length for end in ends[1:])], length
            journal.append(encode_disk(STATES[0]))  # and it can be gone on with
        with Journal(torn, sync=False) as journal:
            assert [*states, STATES[0]] == [decode_disk(record) for record in journal.records]


def test_a_crash_while_all_is_written_anew_leaves_the_old_or_the_new(tmp_path):
    path, aside = tmp_path / "state", tmp_path / ".state.tmp-here-1"
    before = journal_of(path, STATES)
    anew = MAGIC + frame(encode_disk(STATES[-1]))
    for length in range(len(anew) + 1):
        path.write_bytes(before)
        aside.write_bytes(anew[:length])
        with Journal(path, sync=False) as journal:
            assert [decode_disk(record) for record in journal.records] == STATES
        assert list(tmp_path.iterdir()) == [path]
    with Journal(path, sync=False) as journal:
        journal.replace([encode_disk(STATES[-1])])
        assert path.read_bytes() == anew
        journal.append(encode_disk(STATES[0]))
    with Journal(path, sync=False) as journal:
        assert [decode_disk(record) for record in journal.records] == [STATES[-1], STATES[0]]


def test_the_last_record_with_a_wrong_byte_is_as_good_as_not_written(tmp_path):
    """Sectors may be written in any order: the length is there and the rest is not."""
    text = journal_of(tmp_path / "full", STATES)
    last = len(text) - len(frame(encode_disk(STATES[-1])))
    for place in range(last, len(text)):
        damaged = bytearray(text)
        damaged[place] ^= 0x55
        try:
            records, _ = parse(bytes(damaged), title="it")
        except UserError:
            assert place < last + HEADER.size  # others might follow: nobody knows where
            continue
        assert [decode_disk(record) for record in records] == STATES[:-1]


def test_a_length_that_leads_beyond_the_end_is_no_torn_tail(tmp_path):
    """What follows it is whole, and must not be dropped in silence."""
    path = tmp_path / "damaged"
    text = bytearray(journal_of(path, STATES))
    text[len(MAGIC) + 2] ^= 1  # 65,536 bytes longer
    path.write_bytes(text)
    with pytest.raises(UserError, match=f"damaged at byte {len(MAGIC)}:"):
        Journal(path)
    assert path.read_bytes() == text


def test_a_tail_of_zeros_is_torn(tmp_path):
    path = tmp_path / "zeros"
    path.write_bytes(journal_of(tmp_path / "full", STATES) + bytes(1000))
    with Journal(path) as journal:
        assert len(journal.records) == len(STATES)


def test_damage_before_the_end_is_refused(tmp_path):
    """An older state would use sessions twice."""
    path = tmp_path / "damaged"
    text = bytearray(journal_of(path, STATES))
    text[len(MAGIC) + HEADER.size] ^= 1
    path.write_bytes(text)
    with pytest.raises(UserError, match="damaged at byte"):
        Journal(path)


class PowerFailure:
    """What is left of a file when the power fails: its bytes as of the last time it was synced."""

    def __init__(self, path, monkeypatch):
        self.path = path
        self.durable = b""
        sync = os.fsync

        def fsync(descriptor):
            sync(descriptor)
            if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                self.durable = self.path.read_bytes()

        monkeypatch.setattr(os, "fsync", fsync)

    def happen(self):
        self.path.write_bytes(self.durable)


def test_what_was_appended_survives_a_power_failure(tmp_path, monkeypatch):
    """When ``append`` returns, and not later: what is acknowledged then must not be forgotten."""
    path = tmp_path / "state"
    power = PowerFailure(path, monkeypatch)
    journal = Journal(path)
    for count, record in enumerate((b"one", b"two"), 1):
        journal.append(record)
        power.happen()
        with Journal(path, sync=False) as left:
            assert len(left.records) == count, "acknowledged before it was durable"
    journal.close()


def test_without_sync_a_power_failure_takes_records_along(tmp_path, monkeypatch):
    """The twin."""
    path = tmp_path / "state"
    power = PowerFailure(path, monkeypatch)
    with Journal(path, sync=False) as journal:
        journal.append(b"one")
    power.happen()
    with Journal(path, sync=False) as left:
        assert left.records == []


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other"
    path.write_text("not a journal")
    with pytest.raises(UserError, match="not a journal"):
        Journal(path)
    with pytest.raises(UserError, match="cannot keep"):
        Journal(tmp_path / "nowhere" / "state")


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path):
    """A write that fails half-way must not stand before those that follow."""
    path = tmp_path / "state"
    journal = Journal(path, sync=False)
    journal.append(b"first")

    class Full:
        """A file on a disk with three bytes left."""

        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, text):
            self.file.write(bytes(text[:3]))
            raise OSError(28, os.strerror(28))

    whole = journal._file
    journal._file = Full(whole)
    with pytest.raises(UserError, match="No space left"):
        journal.append(b"second")
    journal._file = whole
    journal.append(b"third")
    journal.close()
    with Journal(path) as journal:
        assert journal.records == [b"first", b"third"]
