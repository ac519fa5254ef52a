"""Logs that are damaged at random: read, or refused in one line; nothing else, in any format."""

import gzip
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.errors import UserError
from precedes.trace import Dialect, event_batches, load
from precedes.trace.export import to_csv, to_jsonl
from precedes.trace.opening import TEXT
from tests.support.places import ROOT

EXAMPLES = ROOT / "examples"
TABLE = {
    "columns": {"node": "host", "local_seq": "offset", "kind": "type", "message": "msg_id"},
    "kinds": {"send": "broadcast", "recv": "deliver"},
}
WITH_KINDS = {
    "parser": r"^\S+ (?<host>\w+) +(?<kind>\w+) ?(?<message>.*)$",
    "kinds": {"send": "broadcast", "recv": "deliver", "*": "ignore"},
}
SAMPLES = {
    "jsonl": (EXAMPLES / "chat.jsonl", {}),
    "shiviz": (EXAMPLES / "logs/chat.log", {}),
    "with_kinds": (EXAMPLES / "logs/chat.txt", WITH_KINDS),
    "csv": (EXAMPLES / "logs/chat.csv", TABLE),
    "otel": (EXAMPLES / "logs/chat.otlp.jsonl", {}),
    "edits": (EXAMPLES / "logs/edits.json", {}),
    "automerge": (EXAMPLES / "logs/changes.jsonl", {}),
}
PIECES = [
    *(b"", b"\n", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff", b"\xf0\x9f\x98\x80"),
    *(
        b"null",
        b"-1",
        b"1.5",
        b"9" * 30,
        b"true",
        b"{}",
        b"[]",
        b'"\\ud800"',
        b"\r\n",
        b"\t",
        b"1e9",
    ),
]


def damaged(content, rng):
    """Some bytes cut out, doubled, or replaced by what means something elsewhere."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        first = rng.randrange(len(data) + 1)
        last = min(len(data), first + rng.choice((0, 0, 1, 2, 8, 40)))
        part = rng.choice([rng.choice(PIECES), bytes(data[first:last]) * 2, b""])
        data[first:last] = part
    return bytes(data)


def test_there_is_a_sample_of_every_text():
    assert set(TEXT) == set(SAMPLES) - {"with_kinds"}


@pytest.mark.parametrize("form", SAMPLES)
def test_the_samples_are_whole(form):
    path, said = SAMPLES[form]
    for format in ("auto", "shiviz" if form == "with_kinds" else form):
        (history,) = load(path, format, dialect=Dialect(**said))
        assert history.kind.size > 3
        assert history.skipped == 0


@pytest.mark.parametrize("form", SAMPLES)
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_damage_is_reported_in_a_line(form, seed):
    rng = random.Random(seed)
    path, said = SAMPLES[form]
    content = damaged(path.read_bytes(), rng)
    if rng.random() < 0.1:
        content = gzip.compress(content)
    format = rng.choice(("auto", "shiviz" if form == "with_kinds" else form))
    dialect = Dialect(**said)
    try:
        histories = load(io.BytesIO(content), format, dialect=dialect)
    except UserError as error:
        text = str(error)
        assert "\n" not in text
        assert "log" in text
        return
    assert histories
    # What can be read once can be handed on and read again, if the format can say it.
    for write, other in ((to_jsonl, "jsonl"), (to_csv, "csv")):
        pieces = written(write, event_batches(io.BytesIO(content), format, dialect=dialect))
        if pieces is not None:
            again = load(io.BytesIO(pieces), other)
            sizes = [history.kind.size for history in histories]
            assert [history.kind.size for history in again] == [n for n in sizes if n] or [0]


def written(write, batches):
    try:
        return b"".join(write(batches, title="log"))
    except UserError as error:
        if "export " in str(error):
            return None
        raise
