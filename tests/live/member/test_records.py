"""Records of a fixed size: what is written is laid out as promised, and read as it was meant."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.live.member import records

MEMBER = st.integers(0, (1 << 16) - 1)
COUNT = st.integers(0, records.SEQUENCE_MAX)
LENGTH = st.integers(0, (1 << 32) - 1)
FLAG = st.integers(0, 1)
AT = 3  # somewhere in a buffer

# The layout of each kind, for the struct module.
KINDS = {
    records.UP: ("<BHIH", records.UP_BYTES, records.write_up, records.read_up),
    records.DOWN: ("<BHIB", records.DOWN_BYTES, records.write_down, records.read_down),
}
VALUES = {
    records.UP: st.tuples(MEMBER, COUNT, MEMBER),
    records.DOWN: st.tuples(MEMBER, COUNT, FLAG),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_record_is_laid_out_as_promised_and_comes_back(kind, data):
    layout, size_bytes, write, read = KINDS[kind]
    values = data.draw(VALUES[kind])
    buffer = np.zeros(32, np.uint8)
    assert write(buffer, AT, *values) == AT + size_bytes
    assert buffer[AT : AT + size_bytes].tobytes() == struct.pack(layout, kind, *values)
    assert not buffer[AT + size_bytes :].any()
    assert read(buffer, AT) == values


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=6))
def test_a_field_comes_back_and_is_never_read_beyond_its_end(words):
    row = np.array(words, np.int32)
    buffer = np.zeros(64, np.uint8)
    end = records.write_field(buffer, AT, row)
    found = np.ones_like(row)
    assert records.read_field(buffer, AT, end, found) == end
    assert (found == row).all()
    assert end - AT <= records.fields_bytes_max((row.reshape(1, -1),))
    for cut in range(AT, end):
        assert records.read_field(buffer, AT, cut, found) == records.SHORT
