"""Members that join over real sockets: admission, the group's state, restarts, bad input."""

import asyncio
import json
import logging
import threading

import pytest

from precedes.audit import audit
from precedes.errors import UserError
from precedes.live import Config, Group, GroupLost, Replaced, Security, StateError, make_keys
from precedes.live.membership.learning import Label
from precedes.live.membership.records import encode_label
from precedes.live.net import wire
from precedes.live.transfer import CHUNK_BYTES, Received, pieces
from tests.support.groups import (
    address_of,
    close,
    end,
    enter_all,
    frames_in,
    leave,
    leave_all,
    listeners,
    take,
    until,
)

FOUNDERS = ("ann", "bob", "cid")
PROTOCOLS = ("vector", "vcube", "hashed")
QUICK = {"evict_after_s": 1.0, "test_every_s": 0.2, "blocked_s": 5.0, "linger_s": 2.0}


class Book:
    """The names of all messages that were applied, in order: the smallest state."""

    def __init__(self, *, chunk_bytes=None):
        self.names = []
        self.loads = 0
        self._chunk_bytes = chunk_bytes

    def apply(self, message):
        """Note a message."""
        self.names.append([message.sender, message.sequence])

    def dump(self):
        """All names as JSON, at once or in chunks."""
        data = json.dumps(self.names).encode()
        if self._chunk_bytes is None:
            return data
        return (data[i : i + self._chunk_bytes] for i in range(0, len(data), self._chunk_bytes))

    def load(self, chunks):
        """Replace the names."""
        self.loads += 1
        self.names = json.loads(b"".join(chunks))


def member(name, sock, seeds, *, state=None, **settings):
    """A member of the group of ann, bob and cid."""
    common = {"founders": FOUNDERS, "tier": "interpreted", "start_s": 20.0, **QUICK}
    config = Config(
        **{"member": name, "address": address_of(sock), "seeds": seeds, **common, **settings}
    )
    return Group.open(config, listener=sock, state=state)


class Town:
    """The three founders, entered, with a book each unless ``stateless``."""

    def __init__(self, *, stateless=False, **settings):
        self.socks = listeners(8)
        self.seeds = tuple(map(address_of, self.socks[:3]))
        self.settings = settings
        self.stateless = stateless
        self.used = 0
        self.groups = []

    async def __aenter__(self):
        self.groups = [self.open(name) for name in FOUNDERS]
        await enter_all(self.groups)
        return self

    async def __aexit__(self, *_):
        await close(self.groups)
        for sock in self.socks:
            sock.close()

    def open(self, name, *, book=None, **more):
        """A process of this name, that is not entered."""
        book = None if self.stateless else book or Book()
        sock = self.socks[self.used]
        self.used += 1
        return member(name, sock, self.seeds, state=book, **{**self.settings, **more})

    async def join(self, name, **more):
        """A process of this name, entered."""
        group = self.open(name, **more)
        self.groups.append(group)
        await group.__aenter__()
        return group


def names_of(group):
    """Messages in a group's book."""
    return group._driver.state.names


async def load(group, count, every_s=0.0):
    """Broadcast some messages."""
    for _ in range(count):
        await group.broadcast(b"load")
        await asyncio.sleep(every_s)


def assert_same(groups, count):
    """All books have the same messages, those of each member in order."""
    books = [names_of(group) for group in groups]
    assert [len(names) for names in books] == [count] * len(books)
    for names in books:
        assert sorted(names) == sorted(books[0])
        for sender in {sender for sender, _ in names}:
            numbers = [number for other, number in names if other == sender]
            assert numbers == list(range(1, len(numbers) + 1)), "a number is missing or twice"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_newcomer_under_load_has_the_same_state(protocol, tmp_path):
    async with Town(protocol=protocol, trace=str(tmp_path)) as town:
        founders = list(town.groups)
        loads = [asyncio.create_task(load(group, 100, 0.002)) for group in founders]
        await until(lambda: len(names_of(founders[0])) > 30)
        dan = await town.join("dan")
        assert dan.member == 3
        assert dan.name_of(3) == "dan"
        assert dan.view == [0, 1, 2, 3]
        assert names_of(dan), "the state is there when the member is entered"
        await asyncio.gather(*loads, load(dan, 20))
        await until(lambda: all(len(names_of(group)) == 320 for group in town.groups))
        assert_same(town.groups, 320)
        await until(lambda: founders[0]._driver.view.voters == {1, 2, 3, 4})
        await leave_all(town.groups)
    (report,) = audit(tmp_path)
    assert report.verdict == "held"
    assert report.lost == report.duplicates == 0


async def test_a_defect_in_the_state_is_convicted(tmp_path):
    """The twin: a book that lacks a message, and says that it has it."""

    async with Town(trace=str(tmp_path)) as town:
        await load(town.groups[0], 5)
        await town.join("dan")
        await load(town.groups[0], 5)
        await until(lambda: all(len(names_of(group)) == 10 for group in town.groups))
        await leave_all(town.groups)
    path = tmp_path / "member-0003.views"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (state,) = [line for line in lines if line["kind"] == "state"]
    assert state["counts"]["1"] == 5
    state["counts"]["1"] = 4
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (report,) = audit(tmp_path)
    assert report.verdict == "violated"
    assert any("0:5" in finding for finding in report.view_findings)


async def test_without_a_state_a_newcomer_gets_what_follows(tmp_path):
    async with Town(stateless=True, trace=str(tmp_path)) as town:
        ann = town.groups[0]
        for group in town.groups[1:]:
            group.on_message(lambda message: None)
        await load(ann, 3)
        dan = await town.join("dan")
        last = await ann.broadcast(b"news")
        (message,) = await take(dan, 1)
        assert (message.sender, message.sequence, message.payload) == (*last, b"news")
        await leave_all(town.groups)
    (report,) = audit(tmp_path)
    assert report.verdict == "held"


async def test_views_name_who_has_joined_and_left():
    async with Town() as town:
        ann = town.groups[0]
        views = ann.views()
        assert (await anext(views)).members == {0: "ann", 1: "bob", 2: "cid"}
        dan = await town.join("dan")
        view = await anext(views)
        assert (view.epoch, view.joined, view.voters) == (2, (3,), (0, 1, 2))
        assert (await anext(views)).voters == (0, 1, 2, 3)
        await dan.__aexit__(None, None, None)
        view = await anext(views)
        assert (view.left, view.lost, sorted(view.members)) == ((3,), (), [0, 1, 2])


@pytest.mark.parametrize("name", ["bob", "dan"])
async def test_a_restarted_process_takes_its_name_again(name, tmp_path):
    """A founder as well as a newcomer; killed, its former life is excluded."""
    async with Town(trace=str(tmp_path)) as town:
        if name == "dan":
            await town.join("dan")
        before = next(group for group in town.groups if group.config.member == name)
        await load(before, 5)
        await until(lambda: all(len(names_of(group)) == 5 for group in town.groups))
        await leave(before)
        town.groups.remove(before)
        again = await town.join(name)
        assert again.member > before.member
        assert town.groups[0].name_of(before.member) == name
        await load(again, 5)
        await until(lambda: all(len(names_of(group)) == 10 for group in town.groups))
        assert_same(town.groups, 10)
        await leave_all(town.groups)
    (report,) = audit(tmp_path)
    assert report.verdict == "held"


async def test_of_two_processes_of_a_name_the_newest_stays():
    async with Town() as town:
        ann, bob, cid = town.groups
        again = await town.join("bob")
        await until(lambda: bob.error is not None)
        assert isinstance(bob.error, Replaced)
        await until(lambda: ann.view == cid.view == again.view == [0, 2, 3])
        town.groups.remove(bob)
        with pytest.raises(Replaced):
            await bob.__aexit__(None, None, None)


async def test_a_newcomer_over_tls(tmp_path):
    make_keys(tmp_path, group="group", members=(*FOUNDERS, "dan"))
    town = Town()
    secure = {name: Security.in_directory(tmp_path, member=name) for name in (*FOUNDERS, "dan")}
    town.open = lambda name, opened=town.open, **more: opened(name, security=secure[name], **more)
    async with town:
        await load(town.groups[0], 3)
        dan = await town.join("dan")
        assert len(names_of(dan)) == 3
        await leave_all(town.groups)


class Stubborn(Book):
    """A state of which the first transfer breaks."""

    def __init__(self):
        super().__init__()
        self.has_broken = False

    def dump(self):
        """The first time a chunk, and then an exception."""
        if self.has_broken:
            return super().dump()

        def chunks():
            yield b"["
            self.has_broken = True
            raise RuntimeError("the disk is gone")

        return chunks()


async def test_another_member_is_asked_when_a_transfer_breaks(caplog):
    """Chunks of the broken one are forgotten."""
    async with Town() as town:
        books = [Stubborn() for _ in town.groups]
        for group, book in zip(town.groups, books, strict=True):
            group._driver.state = book
        await load(town.groups[2], 3)
        assert names_of(await town.join("dan")) == [[2, 1], [2, 2], [2, 3]]
        assert all(book.has_broken for book in books), "each was asked"
        assert caplog.messages.count("a transfer of the state failed") == 3
        assert [group._driver._sending for group in town.groups[:3]] == [0, 0, 0]
        await close(town.groups)


class Slow(Book):
    """Loads until it is released."""

    def __init__(self):
        super().__init__()
        self.may_end = threading.Event()

    def load(self, chunks):
        """Wait, then load."""
        assert self.may_end.wait(20)
        super().load(chunks)


async def test_what_is_delivered_while_the_state_loads_is_applied_once():
    """Also messages of the state that were delivered while it was in transit."""
    async with Town() as town:
        await load(town.groups[0], 5)
        slow = Slow()
        joining = asyncio.create_task(town.join("dan", book=slow))
        await until(lambda: town.groups[0].view == [0, 1, 2, 3])
        await load(town.groups[0], 5)
        await load(town.groups[1], 5)
        slow.may_end.set()
        await joining
        await until(lambda: all(len(names_of(group)) == 15 for group in town.groups))
        assert_same(town.groups, 15)
        await close(town.groups)


async def test_a_message_is_applied_when_its_broadcast_returns():
    async with Town() as town:
        name = await town.groups[0].broadcast(b"mine")
        assert names_of(town.groups[0]) == [list(name)]
        seen = []
        town.groups[1].on_message(lambda message: seen.append(message.payload))
        await town.groups[0].broadcast(b"more")
        await until(lambda: b"more" in seen)
        with pytest.raises(UserError, match="go to its apply"):
            async for _ in town.groups[0]:
                pass
        await close(town.groups)


class Broken(Book):
    """One method raises."""

    def __init__(self, what):
        super().__init__()
        setattr(self, what, self.fail)

    def fail(self, *_):
        """As a defect of the application would."""
        raise ValueError("unexpected")


async def test_a_state_that_cannot_be_loaded_ends_the_newcomer_alone():
    async with Town() as town:
        await load(town.groups[0], 1)
        with pytest.raises(StateError, match="load of the state failed: ValueError"):
            await town.join("dan", book=Broken("load"))
        await until(lambda: town.groups[0].view == [0, 1, 2])
        await load(town.groups[0], 1)
        await close(town.groups)


async def test_a_state_that_cannot_apply_ends_its_member_alone():
    async with Town() as town:
        await town.join("dan", book=Broken("apply"))
        await town.groups[0].broadcast(b"")
        dan = town.groups.pop()
        await until(lambda: isinstance(dan.error, StateError))
        assert "apply of the state failed on 0:1: ValueError('unexpected')" in str(dan.error)
        with pytest.raises(StateError):
            await dan.__aexit__(None, None, None)
        await until(lambda: town.groups[0].view == [0, 1, 2])
        await close(town.groups)


async def test_a_state_beyond_the_limit_is_refused():
    async with Town() as town:
        await load(town.groups[0], 50)
        with pytest.raises(StateError, match="the state has more than 100 bytes"):
            await town.join("dan", state_max_bytes=100)
        await close(town.groups)


async def test_messages_that_wait_for_the_state_are_bounded():
    async with Town() as town:
        slow = Slow()
        joining = asyncio.create_task(town.join("dan", book=slow, join_backlog_bytes=1000))
        await until(lambda: town.groups[0].view == [0, 1, 2, 3])
        for _ in range(20):
            await town.groups[0].broadcast(bytes(100))
        with pytest.raises(StateError, match="did not arrive before 1000 bytes of messages"):
            await joining
        slow.may_end.set()
        await close(town.groups)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (object(), "lacks apply"),
        (type("Async", (Book,), {"load": None})(), "lacks load"),
    ],
)
def test_a_state_that_is_none_is_refused(state, said):
    config = Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2"))
    with pytest.raises(UserError, match=said):
        Group.open(config, state=state)


def test_a_fixed_group_has_no_state():
    config = Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2"), protocol="bundled")
    with pytest.raises(UserError, match="bundled has a fixed group"):
        Group.open(config, state=Book())


async def test_who_finds_no_group_says_why():
    (sock,) = listeners(1)
    with pytest.raises(GroupLost, match="no group admitted this member within 1 s"):
        await member("dan", sock, ("127.0.0.1:1",), start_s=1.0).__aenter__()


async def test_a_stranger_gets_no_state(caplog):
    """Only a member of the view that needs it does."""
    async with Town() as town:
        ann = town.groups[0]
        with caplog.at_level(logging.WARNING):
            for life in (b"?" * 16, town.groups[1]._driver.links.life):
                hello = town.groups[1]._driver.links.hello(0)._replace(life=life, state=9)
                reader, writer = await asyncio.open_connection(*town.socks[0].getsockname())
                writer.write(hello.encode())
                (frame,) = frames_in(wire.Frames(frame_max_bytes=1000), await reader.read())
                await end(writer)
                assert (frame[0], frame[-1]) == (wire.REFUSED, b"there is no state here")
        assert ann.view == [0, 1, 2]
        await close(town.groups)


LABEL = memoryview(encode_label(Label(3, {1: 5})))


def received(*frames, limit=100):
    """A state of which these frames have arrived."""
    state = Received(2, limit)
    done = [state.take(number, memoryview(body)) for number, body in frames]
    return state, done


def test_a_state_is_complete_with_its_empty_frame():
    state, done = received((0, LABEL), (1, b"a"), (2, b"b"), (3, b""))
    assert done == [False, False, False, True]
    assert (state.label, state.chunks, state.is_complete) == (
        Label(3, {1: 5}),
        [b"a", b"b", b""],
        True,
    )
    state, done = received((0, LABEL), (1, bytes(60)), (2, bytes(60)))
    assert (done[-1], state.is_too_large, state.is_complete) == (True, True, False)


@pytest.mark.parametrize(
    "frames",
    [[(1, LABEL)], [(0, LABEL), (2, b"a")], [(0, LABEL), (0, LABEL)], [(0, LABEL[:7])]],
    ids=["no label", "a gap", "two labels", "a label cut short"],
)
def test_frames_of_a_state_out_of_place_are_refused(frames):
    with pytest.raises(Exception, match=r"out of sequence|cut short"):
        received(*frames)


def test_a_dump_is_cut_into_chunks():
    size = CHUNK_BYTES + 5
    assert list(map(len, pieces(bytes(size)))) == [CHUNK_BYTES, 5]
    assert list(pieces([b"a", b"", b"bc"])) == [b"a", b"bc"]
    assert list(pieces(b"")) == []
