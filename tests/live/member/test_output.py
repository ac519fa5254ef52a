"""Batches of delivered messages, few or many, of equal sizes or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.live.member.output import FEW, Batch, Message

payloads = st.one_of(
    st.lists(st.binary(max_size=9), min_size=1, max_size=3 * FEW),
    st.integers(0, 9).flatmap(
        lambda size: st.lists(
            st.binary(min_size=size, max_size=size), min_size=FEW - 1, max_size=3 * FEW
        )
    ),
)


def batch_of(messages):
    """Output of a step for these messages."""
    ends = np.cumsum([0, *(len(m.payload) for m in messages)])
    rows = [
        (m.sender, m.sequence, first, last)
        for m, first, last in zip(messages, ends[:-1], ends[1:], strict=True)
    ]
    table = np.array(rows, np.int64)
    return Batch(memoryview(table.tobytes()), memoryview(b"".join(m.payload for m in messages)))


@given(payloads, st.data())
def test_a_batch_gives_what_was_put_in(payloads, data):
    wanted = [Message(i % 3, i, payload) for i, payload in enumerate(payloads, 1)]
    batch = batch_of(wanted)
    popped = data.draw(st.integers(0, len(wanted)))
    assert [batch.pop() for _ in range(popped)] == wanted[:popped]
    rest = wanted[popped:]
    assert (len(batch), list(batch)) == (len(rest), rest)
    assert batch.payloads == [m.payload for m in rest]
    assert batch.senders == [m.sender for m in rest]
    assert batch.sequences == [m.sequence for m in rest]
    assert batch.counts(3).tolist() == [batch.senders.count(who) for who in range(3)]
    assert [batch[i] for i in range(len(rest))] == rest
    with pytest.raises(IndexError):
        batch[len(rest)]
