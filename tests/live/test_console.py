"""What a member prints: others choose the bytes, and a terminal must not obey them."""

import json
import sys

import pytest

from precedes.live import Message, console

HOSTILE = b"\x1b[2J\x1b]0;title\x07 \xff\r\n0: forged"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_payload_does_not_steer_a_terminal(is_terminal, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    shown = console._text(Message(3, 1, HOSTILE))
    assert shown.startswith("3: ")
    if is_terminal:
        assert shown.isprintable(), "a terminal obeys it"
        assert "\\x1b[2J" in shown
    else:
        assert shown == f"3: {HOSTILE.decode(errors='replace')}", "programs get what was sent"


def test_a_line_of_json_is_one_line():
    line = console._json(Message(3, 1, HOSTILE))
    assert line.isprintable()
    assert json.loads(line) == {
        "sender": 3,
        "sequence": 1,
        "payload": HOSTILE.decode(errors="replace"),
    }
