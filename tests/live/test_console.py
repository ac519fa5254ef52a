"""Output of a member: others choose the bytes, and a terminal must not obey them."""

import json
import subprocess
import sys

import pytest

from precedes.live import Message, console
from tests.support import commands
from tests.support.groups import address_of, listeners

HOSTILE = b"\x1b[2J\x1b]0;title\x07 \xff\r\n0: forged"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_payload_does_not_steer_a_terminal(is_terminal, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    shown = console._text(Message(3, 1, HOSTILE), "dan")
    assert shown.startswith("dan: ")
    if is_terminal:
        assert shown.isprintable(), "a terminal obeys it"
        assert "\\x1b[2J" in shown
    else:
        assert shown == f"dan: {HOSTILE.decode(errors='replace')}", "programs get what was sent"


def test_a_line_of_json_is_one_line():
    line = console._json(Message(3, 1, HOSTILE))
    assert line.isprintable()
    assert json.loads(line) == {
        "sender": 3,
        "sequence": 1,
        "payload": HOSTILE.decode(errors="replace"),
    }


def test_nodes_find_each_other_by_name():
    """Each knows its own address; ann dials bob, who knows nobody."""
    socks = listeners(2)
    addresses = list(map(address_of, socks))
    for sock in socks:
        sock.close()
    lines = [
        commands.command("node", "--member", name, "--address", address, "--founders", "ann,bob")
        for name, address in zip(("ann", "bob"), addresses, strict=True)
    ]
    lines[0] += ["--seed", addresses[1]]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with (
        subprocess.Popen(lines[0], text=True, **pipes) as ann,
        subprocess.Popen(lines[1], text=True, **pipes) as bob,
    ):
        for process, text in ((ann, "hello\n"), (bob, "answer\n")):
            process.stdin.write(text)
            process.stdin.close()
            process.stdin = None
        assert bob.communicate(timeout=90)[0] == "ann: hello\n"
        assert ann.communicate(timeout=90)[0] == "bob: answer\n"
