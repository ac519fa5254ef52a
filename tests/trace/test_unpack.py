"""Logs that are compressed, in one part or several, whole or torn."""

import gzip
import io
import random

import pyarrow as pa
import pytest

from precedes.errors import UserError
from precedes.trace import load
from tests.support.places import ROOT
from tests.support.reading import read_one, rows_of

CHAT = (ROOT / "examples" / "chat.jsonl").read_bytes()
NOISE = random.Random(1).randbytes(200_000).hex()
LONG = CHAT + b'{"node": "ann", "kind": "send", "text": "%s"}\n' % NOISE.encode()
EMPTY_FRAME = b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab"


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    return sink.getvalue().to_pybytes()


PACKED = {"gzip": gzip.compress, "zstd": zstd}


@pytest.mark.parametrize("pack", PACKED)
def test_packed_logs(pack):
    whole = PACKED[pack]
    expected = rows_of(read_one(CHAT))
    first, second = CHAT[:100], CHAT[100:]
    assert rows_of(read_one(whole(CHAT))) == expected
    assert rows_of(read_one(whole(LONG))) == expected
    assert rows_of(read_one(whole(first) + whole(second))) == expected
    assert rows_of(read_one(whole(b"node,kind,message\nann,broadcast,x\n"))) == {
        "ann": ["broadcast x"]
    }
    assert rows_of(read_one(whole(b'x\na {"a":1}\n'))) == {"a": ["broadcast a:1"]}
    assert read_one(whole(b"")).kind.size == 0


def test_a_frame_without_content():
    assert rows_of(read_one(EMPTY_FRAME + zstd(CHAT))) == rows_of(read_one(CHAT))


@pytest.mark.parametrize("pack", PACKED)
@pytest.mark.parametrize("form", ["auto", "jsonl", "csv", "shiviz", "otel", "automerge", "edits"])
def test_torn_logs(pack, form):
    """One line, in whatever format they are thought to be; what was read may be refused first."""
    packed = PACKED[pack](LONG)
    middle = len(packed) // 2
    changed = packed[:middle] + bytes(255 - byte for byte in packed[middle : middle + 9])
    changed += packed[middle + 9 :]
    # What pyarrow packs with zstd has no checksum.
    for torn in (packed[:-6], packed[:middle], *([changed] if pack == "gzip" else [])):
        with pytest.raises(UserError) as raised:
            load(io.BytesIO(torn), form)
        assert "\n" not in str(raised.value)
        if form in ("auto", "jsonl"):
            assert str(raised.value).startswith("cannot read log: ")


def test_what_follows_a_packed_log_is_no_text():
    for packed in (zstd(CHAT) + b"more", gzip.compress(CHAT) + b"more"):
        with pytest.raises(UserError, match="cannot read log"):
            load(io.BytesIO(packed))
