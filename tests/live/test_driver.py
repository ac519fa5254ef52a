"""A turn of the loop, without sockets: what is logged, sent and handed out, in which order."""

import dataclasses
import math
import time

import numpy as np
import pytest

from precedes.live import Config
from precedes.live.driver import Driver
from precedes.live.member import arrays
from precedes.live.member.node import Node
from precedes.live.net import wire
from precedes.live.net.links import Links
from precedes.model import NANOSECONDS_PER_S
from precedes.trace import member_log
from tests.support.liars import body_for

ADDRESSES = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


def driver(monkeypatch, tmp_path=None, **settings):
    """A member whose links note what they would send, and whose log notes what it is given."""
    done = []

    def send(links, peer, body, checksum=None, **more):
        assert checksum is None or checksum == wire.crc32(body)
        done.append(("send", peer))

    append = member_log.LogWriter.append

    def log(writer, rows, *, at_once):
        kinds = [int(word) >> 56 for data in rows for word in np.frombuffer(data, np.int64)[1::2]]
        done.extend(("log", kind) for kind in kinds)
        return append(writer, rows, at_once=at_once)

    monkeypatch.setattr(Links, "send", send)
    monkeypatch.setattr(member_log.LogWriter, "append", log)
    trace = None if tmp_path is None else str(tmp_path)
    made = Driver(
        Config(member=0, addresses=ADDRESSES, tier="interpreted", trace=trace, **settings)
    )
    made.open(None)
    return made, done


async def test_a_broadcast_is_logged_before_it_is_sent(tmp_path, monkeypatch):
    """Nobody delivers what is in no log, whenever this member is killed."""
    made, done = driver(monkeypatch, tmp_path)
    made.node.broadcast(b"one")
    made.flush()
    first_sent = [what for what, _ in done].index("send")
    assert ("log", 0) in done[:first_sent], "sent before it was logged"
    assert {peer for what, peer in done if what == "send"} == {1, 2}
    await end(made)


async def end(made):
    """Leave, and let nothing stay behind."""
    made.leave()
    made.links.close()
    await made.wait_closed()


async def test_who_is_evicted_is_sent_nothing_from_that_turn_on(monkeypatch):
    """Not from the next one on: what was decided and what is sent belong together."""
    made, done = driver(monkeypatch, quorum=False)
    made.node.evict(1)
    made.node.broadcast(b"to those who are left")
    made.flush()
    assert {peer for what, peer in done} == {2}, "sent to a member out of the view"
    await end(made)


def views_of(path):
    found = member_log.read_member_log(member_log.log_path(path, 0))
    return list(zip(found.views.member.tolist(), found.views.left.tolist(), strict=True))


async def test_who_is_out_of_the_view_is_logged_after_what_was_delivered(tmp_path, monkeypatch):
    made, done = driver(monkeypatch, tmp_path, quorum=False)
    peer = Node(dataclasses.replace(made.config.settings(), member=2))
    peer.broadcast(b"one")
    made.on_bodies(2, [body_for(peer.run(0), 0)])
    made.node.evict(1)
    made.flush()
    made.flush()
    assert [kind for what, kind in done if what == "log"] == [3, 64]
    await end(made)
    assert views_of(tmp_path) == [(1, False)]


async def test_a_member_that_is_evicted_logs_that_once(tmp_path, monkeypatch):
    made, _ = driver(monkeypatch, tmp_path)
    made.on_refused(1, "you are out", evicted=True)
    made.on_refused(2, "you are out", evicted=True)
    await end(made)
    assert views_of(tmp_path) == [(0, False)]


async def test_a_log_that_fails_at_a_change_of_the_view_says_so(tmp_path, monkeypatch):
    made, _ = driver(monkeypatch, tmp_path, quorum=False)
    monkeypatch.setattr(member_log, "WAITING_BYTES_MAX", 0)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(member_log.os, "write", lambda *_: (_ for _ in ()).throw(full))
    made.node.evict(1)
    made.flush()
    assert made.metrics.trace_failed
    await end(made)
    assert member_log.read_member_log(member_log.log_path(tmp_path, 0)).status == member_log.BROKEN


async def test_what_waits_for_the_application_is_not_consumed(monkeypatch):
    """Its sender gets no credit for what was delivered and lies here."""
    made, _ = driver(monkeypatch)
    peer = Node(dataclasses.replace(made.config.settings(), member=1))
    peer.broadcast(b"one")
    made.on_bodies(1, [body_for(peer.run(0), 0)])
    made.flush()
    assert len(made.inbox) == 1
    consumed = made.node.member.known[1]
    assert consumed[arrays.CONSUMED] == 0, "consumed by nobody"
    made.inbox.add_callback(lambda message: None)
    assert consumed[arrays.CONSUMED] == 1, "consumed once"
    await end(made)


@pytest.mark.parametrize("sign", ["bytes", "bytes of a banned member", "none"])
async def test_any_bytes_of_a_member_are_a_sign_of_life(sign, monkeypatch):
    """Its reply may wait behind data: it is evicted if nothing has come from it."""

    def later(made):
        """All duties were done, and the patience of this round of tests is over."""
        made._start_ns -= 5 * NANOSECONDS_PER_S
        made.flush()
        made.flush()

    made, _ = driver(monkeypatch, evict_after_s=4.0, quorum=False)
    made.node.start(tests_at_ns=0)
    made.flush()
    if sign != "none":
        made.links.link(1).heard_s = time.monotonic()
    if sign == "bytes of a banned member":
        made.links.ban(1)
    later(made)
    assert (1 in made.node.view) == (sign == "bytes")
    made.links.link(1).heard_s = -math.inf
    for _ in range(4):  # the reply of member 2, the rest, another round
        later(made)
    assert made.node.view == [0], "rounds of tests go on"
    await end(made)


@pytest.mark.parametrize("late", [False, True])
async def test_a_member_that_was_stopped_suspects_nobody(late, monkeypatch):
    """Its own silence says nothing about others, who may have replied long ago."""
    made, _ = driver(monkeypatch, evict_after_s=4.0, quorum=False)
    made.node.start(tests_at_ns=0)
    made.flush()
    # Its clock began long ago, and its duties were done until a moment ago, or not at all.
    made._start_ns -= 100 * NANOSECONDS_PER_S
    if late:
        made._beat_ns -= 100 * NANOSECONDS_PER_S
    made.flush()
    made.flush()
    assert (1 in made.node.view) == late, "an own pause was held against others"
    await end(made)
