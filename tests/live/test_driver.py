"""A turn of the loop, without sockets: what is logged, sent and handed out, in which order."""

import dataclasses
import time

import numpy as np
import pytest

from precedes.live import Config
from precedes.live.driver import Driver
from precedes.live.member import arrays
from precedes.live.member.node import Node
from precedes.live.membership.records import Decided, Founded, Installed, Prepare, encode
from precedes.live.membership.values import Ballot, Entry, View
from precedes.live.net import wire
from precedes.live.net.links import Links
from precedes.model import NANOSECONDS_PER_S
from precedes.trace import member_log
from tests.support.byzantine import body_for

ADDRESSES = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


def driver(monkeypatch, tmp_path=None, **settings):
    """A member whose links note what they would send, and whose log notes what it is given."""
    done = []

    def send(links, peer, body, checksum=None, *, epoch, **more):
        assert checksum is None or checksum == wire.crc32(body)
        if epoch:
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
    if made.on_loss == "view":
        lives = lives_of(made)
        for peer in (1, 2):
            meet(made, peer)
        made.membership.receive(lives[1], Founded(0, 1, lives[1], view(made, 1, (0, 1, 2))))
        for peer in (1, 2):
            made.membership.receive(lives[peer], Installed(1, peer + 1, bytes(16)))
        made._carry_out()
    return made, done


def meet(made, peer):
    """A founder has shaken hands."""
    life = lives_of(made)[peer]
    made.links.meet(peer, life)
    made.on_linked(peer, life, str(peer))


def lives_of(made):
    return (made.links.life, b"1" * 16, b"2" * 16)


def view(made, epoch, members, **more):
    """A view of these members."""
    entries = tuple(Entry(i + 1, str(i), lives_of(made)[i]) for i in members)
    uids = {entry.uid for entry in entries}
    return View(
        group=bytes(16), epoch=epoch, entries=entries, voters=frozenset(uids), next_uid=4,
        ballot=Ballot(1, 2), bases=dict.fromkeys(uids, 0), **more,
    )  # fmt: skip


def exclude(made, who, cut=(0, 0, 0)):
    """The others have decided on a view without a member."""
    members = [i for i in range(3) if i != who]
    bases = {i + 1: cut[i] for i in members}
    decided = view(
        made, 2, members, cut=cut, successors={i + 1: i + 1 for i in members},
        ended={who + 1: cut[who]},
    )  # fmt: skip
    decided = dataclasses.replace(decided, bases=bases)
    made.membership.receive(lives_of(made)[2], Decided(1, decided))
    made._carry_out()


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


async def test_who_is_excluded_is_sent_nothing_from_that_view_on(monkeypatch):
    made, done = driver(monkeypatch)
    made.node.broadcast(b"to all")
    made.flush()
    assert {peer for what, peer in done} == {1, 2}
    done.clear()
    exclude(made, 1, cut=(1, 0, 0))
    assert made.members == [0, 2]
    assert made.sequence_of(made.node.broadcast(b"to those who are left")) == 2
    made.flush()
    assert {peer for what, peer in done} == {2}, "sent to a member out of the view"
    await end(made)


async def test_records_wait_for_founders_that_were_not_met_yet():
    """Without INSTALLED of this member they would suspect it."""
    made = Driver(Config(member=0, addresses=ADDRESSES, tier="interpreted"))
    made.open(None)
    lives = lives_of(made)
    meet(made, 1)
    made.membership.receive(lives[1], Founded(0, 1, lives[1], view(made, 1, (0, 1, 2))))
    made._carry_out()
    assert made.members == [0, 1, 2]
    assert made.links.link(2).is_kept(encode(Installed(1, 1, bytes(16))))
    await end(made)


async def test_the_wait_for_members_to_install_begins_with_the_view():
    """The view is installed before the first tick: a clock that stands still suspects them all."""
    made = Driver(Config(member=0, addresses=ADDRESSES, tier="interpreted"))
    made.open(None)
    lives = lives_of(made)
    meet(made, 1)
    founded = Founded(0, 1, lives[1], view(made, 1, (0, 1, 2)))
    made.on_bodies(1, [(0, encode(founded))])
    made._tick()
    assert made.membership.agreement is not None
    assert made.membership.agreement.suspects == set()
    await end(made)


async def test_data_that_follows_a_view_is_of_the_number_that_it_gives():
    """Of a process that a newcomer knew by another one: both came in one write."""
    made = Driver(Config(member=0, addresses=ADDRESSES, tier="interpreted"))
    made.open(None)
    own, *others = lives_of(made)
    entries = (
        Entry(5, "1", others[0], ADDRESSES[1]),
        Entry(2, "2", others[1], ADDRESSES[2]),
        Entry(6, "0", own, ADDRESSES[0]),
    )
    uids = [entry.uid for entry in entries]
    admitting = View(
        group=bytes(16), epoch=2, entries=entries, voters=frozenset({5, 2}), next_uid=7,
        ballot=Ballot(1, 5), bases=dict.fromkeys(uids, 0), ended={1: 0, 3: 0}, cut=(0, 0, 0),
        successors={5: 5, 2: 2},
    )  # fmt: skip
    for peer, life in enumerate(others, 1):
        made.links.link(peer).life = life
        made.links._number_of[life] = peer
        made.on_linked(peer, life, str(peer))
    sender = Node(made.config.settings(0, 3, epoch=2))
    sender.start()
    sender.broadcast(b"the first")
    decided = encode(Decided(1, admitting))
    made.on_bodies(1, [(0, decided), (2, body_for(sender.run(0), 2))])
    assert made.member == 5
    assert set(made.links.links) == {1, 4}, "no link was made to a number that nobody has"
    made.flush()
    assert len(made.inbox) == 1
    assert made.metrics.refusals == {}
    await end(made)


async def test_nothing_is_broadcast_in_the_last_turn_of_an_epoch(monkeypatch):
    """A message of a callback in that turn would be in no report, and its number used again."""
    made, _ = driver(monkeypatch)
    credits = []
    made.inbox.add_callback(lambda message: credits.append(made.credit))
    peer = Node(dataclasses.replace(made.config.settings(), member=2))
    peer.broadcast(b"one")
    prepare = encode(Prepare(1, Ballot(2, 3)))
    made.on_bodies(2, [(1, body_for(peer.run(0), 0)), (0, prepare)])
    assert made.membership.is_frozen
    assert made.membership.agreement.report.delivered == (0, 0, 1)
    assert credits == [0], "a callback may broadcast in the last turn"
    await end(made)


async def test_data_of_a_member_that_is_out_of_the_view_is_ignored(monkeypatch):
    made, _ = driver(monkeypatch)
    exclude(made, 1)
    made.on_bodies(1, [(2, b"of the present epoch")])
    made.flush()
    assert made.error is None
    assert made.members == [0, 2]
    await end(made)


def views_of(path):
    found = member_log.read_member_log(member_log.log_path(path, 0))
    return list(zip(found.views.member.tolist(), found.views.left.tolist(), strict=True))


async def test_who_is_out_of_the_view_is_logged_after_what_was_delivered(tmp_path, monkeypatch):
    made, done = driver(monkeypatch, tmp_path)
    peer = Node(dataclasses.replace(made.config.settings(), member=2))
    peer.broadcast(b"one")
    made.on_bodies(2, [(1, body_for(peer.run(0), 0))])
    exclude(made, 1, cut=(0, 0, 1))
    made.flush()
    assert [kind for what, kind in done if what == "log"] == [3, 64]
    await end(made)
    assert views_of(tmp_path) == [(1, False)]


async def test_a_member_that_is_excluded_logs_that_once(tmp_path, monkeypatch):
    made, _ = driver(monkeypatch, tmp_path)
    made.on_refused(1, "you are out", excluded=True, replaced=False)
    made.on_refused(2, "you are out", excluded=True, replaced=False)
    await end(made)
    assert views_of(tmp_path) == [(0, False)]


async def test_a_log_that_fails_at_a_change_of_the_view_says_so(tmp_path, monkeypatch):
    made, _ = driver(monkeypatch, tmp_path)
    monkeypatch.setattr(member_log, "WAITING_BYTES_MAX", 0)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(member_log.os, "write", lambda *_: (_ for _ in ()).throw(full))
    exclude(made, 1)
    made.flush()
    assert made.metrics.trace_failed
    await end(made)
    assert member_log.read_member_log(member_log.log_path(tmp_path, 0)).status == member_log.BROKEN


async def test_what_waits_for_the_application_is_not_consumed(monkeypatch):
    """Its sender gets no credit for what was delivered and lies here."""
    made, _ = driver(monkeypatch)
    peer = Node(dataclasses.replace(made.config.settings(), member=1))
    peer.broadcast(b"one")
    made.on_bodies(1, [(1, body_for(peer.run(0), 0))])
    made.flush()
    assert len(made.inbox) == 1
    consumed = made.node.member.known[1]
    assert consumed[arrays.CONSUMED] == 0, "consumed by nobody"
    made.inbox.add_callback(lambda message: None)
    assert consumed[arrays.CONSUMED] == 1, "consumed once"
    await end(made)


@pytest.mark.parametrize("sign", ["bytes", "bytes of a banned member", "none"])
async def test_any_bytes_of_a_member_are_a_sign_of_life(sign, monkeypatch):
    """A member is suspected if nothing has come from it, and not if only records are late."""
    made, _ = driver(monkeypatch, evict_after_s=4.0)
    made._trusted_s -= 5.0
    for peer in (1, 2):
        made.links.link(peer).received_s = time.monotonic()
    if sign == "none":
        made.links.link(1).received_s -= 5.0
    if sign == "bytes of a banned member":
        made.links.ban(1)
    made._suspect_silent()
    assert made.membership.agreement.suspects == (set() if sign == "bytes" else {2})
    await end(made)


@pytest.mark.parametrize("late", [False, True])
async def test_a_member_that_was_stopped_suspects_nobody(late, monkeypatch):
    """Its own silence says nothing about others, whose bytes it has not read yet."""
    made, _ = driver(monkeypatch, evict_after_s=4.0)
    made._trusted_s -= 100.0
    made.links.link(1).received_s = time.monotonic() - 100.0
    made.links.link(2).received_s = time.monotonic() - 100.0
    if late:
        made._beat_ns -= 100 * NANOSECONDS_PER_S
    made.flush()
    made._suspect_silent()
    is_suspected = bool(made.membership.agreement.suspects)
    assert is_suspected != late, "an own pause was held against others"
    await end(made)
