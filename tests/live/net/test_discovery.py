"""Members that find each other by name, from seeds."""

import asyncio
import contextlib
import logging
import socket

import pytest

from precedes.live import Config, Group, GroupLost, Security, make_keys
from precedes.live.net import wire
from tests.support.groups import (
    address_of,
    close,
    end,
    enter_all,
    frames_in,
    leave_all,
    listeners,
    passes,
    until,
)

NAMES = ("ann", "bob", "cid", "dan")


def members_at(socks, *, names=NAMES, seeds, each=lambda name: {}, **settings):
    """Members that know their own addresses and seeds."""
    common = {"founders": names, "tier": "interpreted", "linger_s": 1.0, "seeds": seeds}
    return [
        Group.open(
            Config(
                **{"member": name, "address": address_of(sock), **common, **settings, **each(name)}
            ),
            listener=sock,
        )
        for name, sock in zip(names, socks, strict=False)
    ]


@contextlib.asynccontextmanager
async def found(groups):
    """All of these, entered."""
    try:
        await enter_all(groups)
        yield groups
    finally:
        await close(groups)


def closed():
    """An address at which nobody listens."""
    (sock,) = listeners(1)
    with sock:
        return address_of(sock)


@pytest.mark.parametrize(("protocol", "count"), [("vector", 4), ("vcube", 8)])
@pytest.mark.parametrize("seed", [0, 2])
async def test_one_seed_is_enough_to_find_all(protocol, count, seed):
    """It has no seeds itself; also members that need no link learn each other's address."""
    socks, names = listeners(count), [f"{i}.of-a_group" for i in range(count)]
    seeds = (address_of(socks[seed]),)
    groups = members_at(
        socks,
        names=names,
        seeds=seeds,
        protocol=protocol,
        each=lambda name: {"seeds": ()} if name == names[seed] else {},
    )
    async with found(groups):
        for sender, receiver in ((groups[0], groups[-1]), (groups[-1], groups[0])):
            await passes(sender, receiver)
        everywhere = dict(enumerate(map(address_of, socks)))
        for group in groups:
            known = group._driver.links.discovery.addresses
            others = {i: where for i, where in everywhere.items() if i != group.member}
            await until(lambda known=known, others=others: known == others)
            assert sum(group.metrics.refusals.values()) == 0
        await leave_all(groups)


async def test_without_a_seed_nobody_is_found():
    errors = await lost(
        lambda **more: members_at(listeners(2), names=("a", "b"), seeds=(), **more), ""
    )
    assert errors == [f"member {other} did not come within a while" for other in "ba"]


class Resolver:
    """Names of hosts as in a cluster: that of a service stands for all its members."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.resolved = []
        self.loop = asyncio.get_running_loop()
        self.loop.getaddrinfo = self.getaddrinfo

    async def getaddrinfo(self, host, port, **_):
        self.resolved.append(host)
        if host not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", tuple(place)) for place in self.hosts[host]
        ]


@pytest.mark.parametrize("secure", [False, True])
async def test_a_seed_may_be_the_name_of_all_members(secure, tmp_path):
    """As a headless service: it resolves to nothing at first, then to all, of which one is gone."""
    socks, count = listeners(4), 3
    names = [f"orders-{i}" for i in range(count)]
    make_keys(tmp_path, group="orders", members=names)

    def own(name):
        security = Security.in_directory(tmp_path, member=name) if secure else None
        return {"address": f"{name}.orders:7000", "security": security}

    groups = members_at(
        socks,
        names=names,
        seeds=("orders:7000",),
        name="orders",
        each=lambda name: {**own(name), "founders": count},
        listen="127.0.0.1:7000",
    )
    socks[count].close()
    places = [group._listener.getsockname() for group in groups]
    resolver = Resolver(
        {f"{name}.orders": [place] for name, place in zip(names, places, strict=True)}
    )
    resolver.hosts["orders"] = []
    entering = asyncio.ensure_future(enter_all(groups))
    await until(lambda: resolver.resolved.count("orders") > 8)
    assert set(resolver.resolved) == {"orders"}
    resolver.hosts["orders"] = [("127.0.0.1", 1), *places]
    await entering
    async with found([]):
        await passes(groups[0], groups[2])
        groups[2]._driver.links.connections[0].abort()
        before = len(resolver.resolved)
        await passes(groups[2], groups[0])
        assert len(resolver.resolved) > before, "an address is resolved again"
        assert all(group.metrics.refusals == {} for group in groups)
        await leave_all(groups)


async def lost(make, said):
    """The errors of members that do not get in; the last one says this, sooner or later."""
    for start_s in (0.5, 5.0, 30.0):
        groups = make(start_s=start_s)
        ends = await asyncio.gather(*map(Group.__aenter__, groups), return_exceptions=True)
        assert {*map(type, ends)} == {GroupLost}
        if said in str(ends[-1]):
            break
    return [str(error).replace(f"{start_s:g} s", "a while") for error in ends]


async def test_a_certificate_of_another_name_is_refused(tmp_path, caplog):
    make_keys(tmp_path, group="group", members=("a", "b", "b.b"))
    of = {"a": "a", "b": "b.b"}

    def make(**more):
        socks = listeners(2)
        secure = {name: Security.in_directory(tmp_path, member=own) for name, own in of.items()}
        own = {"each": lambda name: {"security": secure[name]}}
        return members_at(socks, names=("a", "b"), seeds=(address_of(socks[0]),), **own, **more)

    said = "it claims to be member b, but its certificate is of precedes:group/b.b"
    with caplog.at_level(logging.WARNING):
        errors = await lost(make, said)
    assert said in errors[1]
    assert any(said in line for line in caplog.messages)
    of["b"] = "b"
    async with found(make(start_s=30.0)) as groups:  # the twin
        await passes(*groups)
        await leave_all(groups)


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host"])
async def test_a_seed_that_does_not_answer_is_named_with_the_reason(host, caplog, monkeypatch):
    monkeypatch.setattr("precedes.live.net.discovery.RETRY_LAST_S", 0.02)
    if host == "no-such-host":
        Resolver({})
    seed = f"{host}:{closed().rpartition(':')[2]}"
    why = "Connection refused" if host == "127.0.0.1" else "Name or service not known"
    said = f"seed {seed} does not answer: {why}"

    def make(**more):
        return members_at(listeners(1), seeds=(seed,), **more)

    assert await lost(make, said) == [f"member bob, cid, dan did not come within a while; {said}"]
    entering = asyncio.ensure_future(make(start_s=30.0)[0].__aenter__())
    caplog.clear()
    await until(lambda: caplog.messages == [said])
    entering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await entering


@pytest.mark.parametrize(
    "other", [{"name": "other"}, {"key": "other"}, {"founders": ("bob", "ann")}]
)
async def test_members_of_different_groups_refuse_each_other(other, caplog):
    seeds = []

    def make(**more):
        socks = listeners(2)
        seeds.append(address_of(socks[0]))
        own = {"ann": {"seeds": ()}, "bob": other}
        return members_at(
            socks, names=("ann", "bob"), seeds=seeds[-1:], each=lambda name: own[name], **more
        )

    said = "it belongs to another group, or its settings differ"
    assert await lost(make, said) == [
        "member bob did not come within a while",
        f"member ann did not come within a while; refused by {seeds[-1]}: {said}; "
        f"seed {seeds[-1]} does not answer: no handshake",
    ]
    assert f"somebody refuses this member: {said}" in caplog.messages


LATER = wire.Hello("bob", "", bytes(16), bytes(16), bytes(16), 0, "127.0.0.1:7000")
VERSION = "it speaks another version"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (LATER.encode(lowest=4, highest=5), "refused {}: {}: versions 4 to 5, this member 3"),
        (
            wire.refusal(f"{VERSION}: version 3, this member 2"),
            "refused by {}: {}: version 3, this",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(99), "refused {}: it answers without"),
    ],
    ids=["later", "earlier", "another protocol"],
)
async def test_a_seed_of_another_version_is_named_with_the_reason(answer, said):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(answer)
        await end(writer)

    (sock,) = listeners(1)
    async with await asyncio.start_server(serve, sock=sock):
        said = said.format(address_of(sock), VERSION)

        def make(**more):
            return members_at(listeners(1), seeds=(address_of(sock),), **more)

        (error,) = await lost(make, said)
        assert said in error


async def test_two_processes_of_one_name_do_not_both_get_in():
    """A fixed group that has met one of them goes on, and the other one says why it stops."""
    socks = listeners(2)
    seeds = (address_of(socks[0]),)
    groups = members_at(socks, names=("ann", "bob"), seeds=seeds, protocol="bundled")
    async with found(groups):
        for name in ("ann", "bob"):

            def make(member=name, **more):
                own = {"each": lambda _: {"member": member}}
                own |= {"protocol": "bundled", **more}
                return members_at(listeners(1), names=("ann", "bob"), seeds=seeds, **own)

            said = f"it was restarted, or two processes have its name: member {name}"
            (error,) = await lost(make, said)
            assert "refused by 127.0.0.1:" in error
            assert said in error
        await passes(*groups)
        await leave_all(groups)


BAD = {
    "not an address": {"address": "here"},
    "a port too large": {"address": "a:65536"},
    "no host": {"address": ":7000"},
    "a name that cannot be": {"address": 64 * "a" + ".org:7000"},
    "a malformed address of another": {"members": [("bob", "a:b")]},
    "a label too long of another": {"members": [("bob", "a..b:1")]},
}


def hello_of(config, **more):
    """A handshake that asks for addresses."""
    hello = wire.Hello(
        member=config.member,
        target="",
        group=config.group_digest(),
        life=b"h" * 16,
        known=bytes(16),
        received=0,
        address=config.advertised,
    )
    return hello._replace(**more)


async def answer_to(hello, sock):
    """All that comes back."""
    reader, writer = await asyncio.open_connection(*sock.getsockname())
    writer.write(hello.encode())
    data = await reader.read()
    await end(writer)
    return data


@pytest.mark.parametrize("what", BAD)
async def test_handshakes_with_bad_addresses_are_refused(what):
    socks = listeners(3)
    groups = members_at(socks[:2], names=("ann", "bob"), seeds=(address_of(socks[0]),))
    cid = Config(member="ann", founders=("ann", "bob"), address=address_of(socks[2]))
    async with found(groups):
        hello = hello_of(cid, member="bob", life=groups[1]._driver.links.life)
        data = await answer_to(hello._replace(**BAD[what]), socks[0])
        (frame,) = frames_in(wire.Frames(frame_max_bytes=1000), data)
        assert frame[-1].startswith(b"its handshake is malformed")
        assert groups[0].metrics.refusals == {"its handshake is malformed": 1}
        assert groups[0]._driver.links.discovery.addresses == {1: address_of(socks[1])}
        data = await answer_to(hello, socks[0])
        assert wire.decode_hello(data).member == "ann", "the twin"
        await passes(*groups)
        await leave_all(groups)
    socks[2].close()


async def test_a_wrong_address_is_replaced_by_the_right_one():
    """Somebody claims to be bob; eve may be a member of a group to join."""
    socks = listeners(3)
    seeds = (address_of(socks[0]),)
    ann, bob, cid = members_at(socks, names=("ann", "bob", "cid"), seeds=seeds)
    entering = asyncio.ensure_future(ann.__aenter__())
    await until(lambda: ann._driver.is_open)
    wrong, more = closed(), [("eve", "10.0.0.9:1"), ("cid", closed())]
    hello = hello_of(bob.config, address=wrong, members=more)
    assert wire.decode_hello(await answer_to(hello, socks[0])).address == seeds[0]
    addresses = ann._driver.links.discovery.addresses
    assert addresses == {1: wrong, -2: "10.0.0.9:1", 2: more[1][1]}
    rest = asyncio.ensure_future(cid.__aenter__())
    await until(lambda: cid._driver.is_open and 1 in cid._driver.links.discovery.addresses)
    assert cid._driver.links.discovery.addresses[1] == wrong
    await asyncio.gather(entering, rest, bob.__aenter__())
    async with found([]):
        for group in (ann, cid):
            assert group._driver.links.discovery.addresses[1] == address_of(socks[1])
        await passes(bob, cid)
        await leave_all([ann, bob, cid])
