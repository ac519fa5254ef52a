"""Nobody gets in without the right certificate, and nobody's key gets out."""

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import socket
import stat

import pytest
import uvloop

from precedes.errors import PeerError, UserError
from precedes.live import GroupLost, Security, make_keys
from precedes.live.config import from_toml
from precedes.live.metrics import health
from precedes.live.net import wire
from precedes.live.net.links import EXCLUDED
from precedes.live.net.security import check_name, contexts
from tests.support.groups import (
    HELLO_BYTES,
    Impostor,
    end,
    exposed,
    group_of,
    listeners,
    open_all,
    passes,
    run,
    take,
    until,
)

NAME = "group"

# The standard library leaves the transport of a refused handshake to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def files(directory, member):
    return Security.in_directory(directory, member=member)


@pytest.fixture
def keys(tmp_path):
    make_keys(tmp_path / "keys", group=NAME, members=3)
    return tmp_path / "keys"


def with_keys(directory):
    """Settings of each member alone."""
    return lambda member: {"security": files(directory, member)}


async def refused(**settings):
    """The first of two members that do not let each other in."""
    groups = open_all(listeners(2), **settings)
    found = await asyncio.gather(*(group.__aenter__() for group in groups), return_exceptions=True)
    assert [type(error) for error in found] == [GroupLost, GroupLost]
    return groups[0]


async def test_a_group_with_keys_works_and_logs_no_key(keys, caplog):
    caplog.set_level(logging.DEBUG)
    async with group_of(3, each=with_keys(keys)) as groups:
        await groups[0].broadcast(b"secret")
        for group in groups[1:]:
            assert (await take(group, 1))[0].payload == b"secret"
    for path in keys.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        body = "".join(path.read_text().splitlines()[1:-1])
        assert body not in caplog.text.replace("\n", "")
        assert body[:40] not in caplog.text


def wrong_files(case, keys, tmp_path):
    """Certificates that must not do, for member 1."""
    if case == "none at all":
        return None
    if case == "of another member":
        return files(keys, 2)
    make_keys(tmp_path / "others", group=NAME, members=2)
    return dataclasses.replace(files(tmp_path / "others", 1), authority=str(keys / "authority.pem"))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("of another member", "its certificate is of precedes:group/2"),
        ("self-signed", "not accepted"),
        ("none at all", "TLS"),
    ],
)
async def test_the_wrong_certificate_is_refused_with_a_clear_line(
    case, reason, keys, tmp_path, caplog
):
    shown = [files(keys, 0), wrong_files(case, keys, tmp_path)]
    with caplog.at_level(logging.WARNING):
        good = await refused(start_s=1.0, each=lambda member: {"security": shown[member]})
    assert sum(good.metrics.refusals.values()) > 0
    assert any(reason in line for line in caplog.messages), caplog.messages
    assert "PRIVATE" not in caplog.text


async def test_an_expired_certificate_is_refused(tmp_path, caplog):
    """All of one authority whose certificates are over: the date is all that is wrong."""
    make_keys(tmp_path, group=NAME, members=2, days=-1)
    with caplog.at_level(logging.WARNING):
        await refused(start_s=1.0, each=with_keys(tmp_path))
    assert any("certificate has expired" in line for line in caplog.messages), caplog.messages


async def test_a_group_of_another_key_is_another_group(caplog):
    with caplog.at_level(logging.WARNING):
        await refused(start_s=0.5, each=lambda member: {"key": f"of member {member}"})
    assert any("another group, or its settings differ" in line for line in caplog.messages)


async def test_a_restarted_member_does_not_come_back_in():
    """To a fixed group: it would number its messages from 1 again."""
    async with group_of(2, protocol="bundled") as (one, two):
        socks = [one._listener, two._listener]
        bad = Impostor(two.config, socks)
        assert b"was restarted" in await bad.connect(0)
        for writer in bad.writers:
            await end(writer)
        assert any("was restarted" in reason for reason in one.metrics.refusals)
        await passes(two, one, b"still here")


async def test_files_that_are_not_there_are_named(keys, tmp_path):
    authority = str(keys / "authority.pem")
    missing = Security(authority=authority, certificate="nowhere.pem", key="nowhere.key")
    with pytest.raises(UserError, match=r"there is no file nowhere\.pem"):
        async with group_of(2, without=(1,), security=missing):
            pass


def test_a_group_file(tmp_path, keys):
    path = tmp_path / "group.toml"
    path.write_text(
        f"""
        name = "{NAME}"
        addresses = ["127.0.0.1:7000", "127.0.0.1:7001"]
        protocol = "vcube"
        [security]
        authority = "{keys}/authority.pem"
        certificate = "{keys}/member-{{member}}.pem"
        key = "{keys}/member-{{member}}.key"
        """
    )
    config = from_toml(path, member=1)
    assert config.protocol == "vcube"
    assert config.security.key.endswith("member-1.key")
    path.write_text("adresses = []")
    with pytest.raises(UserError, match="unknown setting 'adresses'"):
        from_toml(path, member=0)


def shake_hands(address, keys):
    """As member 2, which has nothing to say."""
    context = contexts(files(keys, 2)).client
    with (
        socket.create_connection(address, timeout=5) as plain,
        context.wrap_socket(plain) as secured,
    ):
        return secured.version()


def test_what_is_said_at_once_is_heard(keys):
    """With uvloop: it reads as soon as a connection is there, whatever its protocol says."""

    async def test():
        async with group_of(2, each=with_keys(keys)) as (one, _):
            for _ in range(40):
                address = one._listener.getsockname()
                assert await asyncio.to_thread(shake_hands, address, keys) == "TLSv1.3"

    run(test(), new_loop=uvloop.new_event_loop)


def resume(address, keys):
    """Connect twice as member 2, with the session of the first time; whether it was resumed."""
    context, session = contexts(files(keys, 2)).client, None
    for _ in range(2):
        with (
            socket.create_connection(address, timeout=5) as plain,
            context.wrap_socket(plain, session=session) as secured,
        ):
            secured.sendall(b"not a handshake")
            secured.recv(1 << 16)  # tickets come before the refusal
            session = secured.session
            was_resumed = secured.session_reused
    return was_resumed


async def test_every_connection_shows_its_certificate(keys):
    """A resumed session would let in a member whose certificate has expired since."""
    async with group_of(2, each=with_keys(keys)) as (one, _):
        assert not await asyncio.to_thread(resume, one._listener.getsockname(), keys)


async def test_without_tickets_turned_off_a_session_is_resumed(keys):
    """The twin: the client above would resume a session if it were given a ticket."""
    context = contexts(files(keys, 0)).server
    context.num_tickets = 2

    async def refuse(reader, writer):
        await reader.read(1)
        writer.write(b"no")
        await end(writer)

    async with await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context) as server:
        address = server.sockets[0].getsockname()
        assert await asyncio.to_thread(resume, address, keys)


def seen_by(group, peer):
    """The number of the certificate that a peer has shown."""
    connection = group._driver.links.connections.get(peer)
    return connection and connection.transport.get_extra_info("peercert")["serialNumber"]


async def test_certificates_that_are_replaced_are_used(keys, tmp_path, caplog):
    """By both sides, also if the authority is another one."""
    make_keys(tmp_path / "new", group=NAME, members=3)
    caplog.set_level(logging.WARNING)
    async with group_of(2, each=with_keys(keys)) as (one, two):
        assert health(one._driver).status == "ready"
        before = seen_by(one, 1), seen_by(two, 0)
        shutil.copytree(tmp_path / "new", keys, dirs_exist_ok=True)
        one._driver.links.connections[1].abort()
        await passes(one, two, b"again")
        assert seen_by(one, 1) != before[0]
        assert seen_by(two, 0) != before[1]
        assert await asyncio.to_thread(shake_hands, one._listener.getsockname(), tmp_path / "new")
    assert "replace it" not in caplog.text


async def test_files_that_cannot_be_used_change_nothing(keys, caplog):
    caplog.set_level(logging.WARNING)
    async with group_of(2, each=with_keys(keys)) as (one, two):
        (keys / "member-0.pem").write_text("half of a certif")
        (keys / "authority.pem").unlink()
        two._driver.links.connections[0].abort()
        await passes(one, two, b"again")
    said = [line for line in caplog.messages if "the previous files stay in use" in line]
    assert 1 <= len(said) <= 4


async def test_a_certificate_that_is_nearly_over_is_said_to_be(tmp_path, caplog):
    """A minute and a half are left of six and a half."""
    make_keys(tmp_path, group=NAME, members=2, days=90 / 86_400)
    caplog.set_level(logging.WARNING)
    async with group_of(2, each=with_keys(tmp_path)) as (one, _):
        await until(lambda: "member-0.pem is valid until" in caplog.text)
        assert health(one._driver).wrong == ["the certificate expires soon"]
        name = "precedes_certificate_expiry_seconds"
        (line,) = (line for line in exposed(one).splitlines() if line.startswith(name))
        assert 0 < float(line.split()[-1]) <= 90


async def test_without_certificates_nothing_is_said_of_them():
    async with group_of(2) as (one, _):
        assert health(one._driver).status == "ready"
        assert "precedes_certificate_expiry_seconds{" not in exposed(one)


def linger(address, context, hello):
    """Greet as no member does, and neither read nor close; when the other side has."""
    with (
        socket.create_connection(address, timeout=10) as plain,
        context.wrap_socket(plain) as secured,
    ):
        secured.sendall(hello)
        # What comes over the wire: the refusal and the end of TLS, which is not answered.
        while socket.socket.recv(secured, 1 << 16):
            pass


def strange_hello(config):
    """The handshake of a member of another group."""
    hello = wire.Hello(
        member="2",
        target="0",
        group=bytes(16),
        life=b"l" * 16,
        known=bytes(16),
        received=0,
        address="127.0.0.1:7002",
    )
    assert hello.group != config.group_digest()
    return hello.encode()


async def test_who_is_refused_does_not_stay(keys, monkeypatch):
    monkeypatch.setattr("precedes.live.net.links.CLOSE_S", 0.1)
    async with group_of(2, each=with_keys(keys)) as (one, _):
        context, address = contexts(files(keys, 2)).client, one._listener.getsockname()
        await asyncio.to_thread(linger, address, context, strange_hello(one.config))
        assert sum(one.metrics.refusals.values()) == 1


@pytest.mark.parametrize("secure", [False, True])
async def test_idle_connections_do_not_keep_a_member_out(secure, keys):
    """There are at most 64 connections without a handshake: the oldest one makes room."""
    more = {"each": with_keys(keys)} if secure else {}
    async with group_of(2, **more) as (one, two):
        address = one._listener.getsockname()
        idle = [await asyncio.open_connection(*address) for _ in range(64)]
        await until(lambda: len(one._driver.links._unidentified) == 64)
        while not one.metrics.refusals:  # or member 0 has dialled first
            before = one._driver.links.connections[1]
            two._driver.links.connections[0].abort()
            await until(lambda old=before: one._driver.links.connections.get(1, old) is not old)
        assert one.metrics.refusals == {"too many connections at once": 1}
        with contextlib.suppress(ConnectionError):
            assert await idle[0][0].read() == b""
        assert not any(reader.at_eof() for reader, _ in idle[1:])
    for _, writer in idle:
        await end(writer)


def test_names_in_a_certificate_are_spelt_out():
    with pytest.raises(PeerError) as caught:
        check_name(["precedes:group/1\nall is well \x1b[2J"], NAME, "1")
    assert "group/1\\nall is well \\x1b[2J" in str(caught.value)


@pytest.mark.parametrize("code", [0, EXCLUDED])
async def test_the_words_of_a_refusal_are_spelt_out(code, caplog):
    text = "no\nWARNING all is lost \x1b[31m\u202e"

    async def refuse(reader, writer):
        await reader.readexactly(HELLO_BYTES)
        writer.write(wire.refusal(text, code=code))
        await end(writer)

    with caplog.at_level(logging.WARNING):
        socks = listeners(2)
        server = await asyncio.start_server(refuse, sock=socks[0])
        with pytest.raises(GroupLost) as caught:
            await open_all(socks, start_s=0.5)[1].__aenter__()
        server.close()
        # asyncio tells in many lines of a server whose caller is gone at the end of the group.
        said = [x.getMessage() for x in caplog.records if x.name != "asyncio"]
    said.append(str(caught.value))
    assert all(line.isprintable() for line in said)
    assert any("no\\nWARNING all is lost \\x1b[31m\\u202e" in line for line in said)
