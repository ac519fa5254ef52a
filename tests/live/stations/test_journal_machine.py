"""Any history of a journal, with crashes at any byte: its model is the list of its records."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from precedes.errors import UserError
from precedes.live.stations.journal import HEADER, MAGIC, Journal, frame

# Some end in zeros, as does what a crash leaves of a file that has grown and was not written.
RECORDS = st.binary(max_size=30) | st.integers(0, 9).map(bytes)
PLACES = st.integers(0, 1 << 16)


class Journals(RuleBasedStateMachine):
    """One file, opened again and again."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "state"
        self.model = []

    @initialize(sync=st.booleans())
    def open(self, sync):
        self.journal = Journal(self.path, sync=sync)

    def reopen(self):
        self.journal = Journal(self.path, sync=self.journal.sync)
        assert self.journal.records == self.model
        assert self.path.read_bytes() == MAGIC + b"".join(map(frame, self.model))
        assert list(self.path.parent.iterdir()) == [self.path]

    @rule(record=RECORDS)
    def append(self, record):
        self.journal.append(record)
        self.model.append(record)

    @rule(records=st.lists(RECORDS, max_size=3))
    def replace(self, records):
        self.journal.replace(records)
        self.model = list(records)

    @rule()
    def close_and_open(self):
        self.journal.close()
        self.reopen()

    @rule(record=RECORDS, place=PLACES, is_grown=st.booleans())
    def crash_in_append(self, record, place, is_grown):
        """The file may have got its new length before its bytes."""
        self.journal.close()
        whole = frame(record)
        torn = whole[: place % (len(whole) + 1)]
        if is_grown:
            torn = torn.ljust(len(whole), b"\0")
        with self.path.open("ab") as file:
            file.write(torn)
        if torn == whole:
            self.model.append(record)
        self.reopen()

    @rule(records=st.lists(RECORDS, max_size=3), place=PLACES)
    def crash_in_replace(self, records, place):
        """Before the new file has got the name of the old one."""
        self.journal.close()
        whole = MAGIC + b"".join(map(frame, records))
        aside = self.path.with_name(".state.tmp-here-1")
        aside.write_bytes(whole[: place % (len(whole) + 1)])
        self.reopen()

    @precondition(lambda self: len(self.model) > 1)
    @rule(which=PLACES, place=PLACES, bit=st.integers(0, 7))
    def change_a_bit_before_the_end(self, which, place, bit):
        """Of a length, too: one that leads beyond the end is not that of a torn record."""
        self.journal.close()
        which %= len(self.model) - 1
        begin = len(MAGIC) + sum(len(frame(record)) for record in self.model[:which])
        text = self.path.read_bytes()
        at = begin + place % (HEADER.size + len(self.model[which]))
        changed = bytearray(text)
        changed[at] ^= 1 << bit
        self.path.write_bytes(changed)
        with pytest.raises(UserError, match="is damaged at byte"):
            Journal(self.path)
        assert self.path.read_bytes() == changed, "nothing more is lost"
        self.path.write_bytes(text)
        self.reopen()

    @invariant()
    def it_has_what_it_was_given(self):
        if hasattr(self, "journal"):
            assert self.journal.records == self.model

    def teardown(self):
        self.journal.close()
        self.reopen()
        self.journal.close()
        self.directory.cleanup()


TestJournal = Journals.TestCase
TestJournal.settings = settings(max_examples=40, stateful_step_count=20)
