"""The view of a group over HTTP, and ``precedes members``."""

import asyncio
import json
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from precedes.cli.live import members_text
from precedes.errors import UserError
from precedes.live import Config, Group
from precedes.live.http import HttpServer
from precedes.live.metrics import health
from precedes.live.status import PATH, fetch_status
from tests.support import commands
from tests.support.groups import (
    address_of,
    enter_all,
    exposed,
    group_of,
    leave,
    listeners,
    until,
)

SERVED = {"metrics": "127.0.0.1:0"}
QUICK = {"evict_after_s": 1.0, "test_every_s": 0.2, "linger_s": 1.0, "tier": "interpreted"}


def place_of(group):
    """The address at which a member serves."""
    return "{}:{}".format(*group.metrics_address)


async def status(group):
    """As ``precedes members`` gets it."""
    return await asyncio.to_thread(fetch_status, place_of(group))


class Slow:
    """A state that is loaded when a test allows it."""

    def __init__(self):
        self.log, self.may_load = [], threading.Event()

    def apply(self, message):
        self.log.append(message.payload)

    def dump(self):
        return json.dumps([payload.decode() for payload in self.log]).encode()

    def load(self, chunks):
        self.may_load.wait(20)
        self.log = [text.encode() for text in json.loads(b"".join(chunks))]


def samples_of(group):
    """The metrics of a member, by name."""
    families = text_string_to_metric_families(exposed(group))
    return {sample.name: sample.value for family in families for sample in family.samples}


async def test_a_learner_has_no_vote_and_is_not_ready():
    """Until it has loaded the state; then nobody misses anything."""
    socks = listeners(4)
    seeds = tuple(map(address_of, socks[:3]))
    groups, states = [], []
    for name, sock in zip("abcd", socks, strict=True):
        config = Config(
            member=name, founders=("a", "b", "c"), address=address_of(sock), seeds=seeds, **SERVED,
            **QUICK,
        )  # fmt: skip
        states.append(Slow())
        groups.append(Group.open(config, state=states[-1], listener=sock))
    *founders, late = groups
    await enter_all(founders)
    await founders[0].broadcast(b"before")
    joining = asyncio.create_task(late.__aenter__())
    await until(lambda: all(len(group.view) == 4 for group in founders))
    await until(lambda: health(founders[0]._driver).status == "ready")
    found = await status(founders[0])
    assert (found["epoch"], found["learners"], found["health"]) == (2, ["d"], "ready")
    assert [(one["number"], one["name"], one["vote"]) for one in found["members"]] == [
        *((number, name, True) for number, name in enumerate("abc")),
        (3, "d", False),
    ]
    assert [one["address"] for one in found["members"]] == list(map(address_of, socks))
    await until(lambda: late.metrics_address and late._driver.view is not None)
    assert (await status(late))["problems"] == ["the state of the group has not arrived"]
    samples = samples_of(founders[1])
    assert (samples["precedes_epoch"], samples["precedes_learners"]) == (2, 1)
    states[-1].may_load.set()
    await joining
    await until(lambda: all(group._driver.view.epoch == 3 for group in groups))
    await until(lambda: health(late._driver).status == "ready")
    found = await status(late)
    assert (found["learners"], found["health"], found["number"]) == ([], "ready", 3)
    assert samples_of(founders[0])["precedes_joins_total"] == 1
    await late.leave()
    await until(lambda: founders[0].view == [0, 1, 2])
    assert health(founders[0]._driver) == ("ready", []), "it was not lost"
    await asyncio.gather(*(group.leave() for group in founders))


async def test_a_minority_names_the_missing_votes():
    given = {**SERVED, **QUICK}
    async with group_of(3, **given) as (one, two, three):
        for group in (two, three):
            group._driver.links.part = lambda: None
            await leave(group)
        await until(lambda: one.blocked)
        found = await status(one)
        assert (found["health"], found["blocked"]) == ("live", ["1", "2"])
        assert found["suspected"] == found["disconnected"] == ["1", "2"]
        assert samples_of(one)["precedes_votes_missing"] == 2
        lines = members_text(found).splitlines()
        assert lines[0] == "member 0 of group group, epoch 1: live"
        assert lines[-1] == "blocked: no quorum without 1, 2"
        assert lines[-2].endswith("suspected, disconnected")
        await leave(one)


async def test_the_command_prints_a_table_or_json(capsys):
    async with group_of(2, **SERVED) as (one, _):
        printed = await asyncio.to_thread(commands.output, capsys, "members", place_of(one))
        first, heads, *rows = printed.splitlines()
        assert first == "member 0 of group group, epoch 1: ready"
        assert heads.split() == ["number", "name", "vote", "address"]
        addresses = one.config.addresses
        assert [row.split() for row in rows] == [
            [str(number), str(number), "yes", addresses[number]] for number in (0, 1)
        ]
        found = await asyncio.to_thread(commands.parsed, capsys, "members", place_of(one), "--json")
        assert (found["protocol"], found["blocked"], found["member"]) == ("vector", [], "0")


async def test_what_does_not_answer_as_a_member_is_an_error_of_one_line(capsys):
    (sock,) = listeners(1)
    address = address_of(sock)
    sock.close()
    line = commands.fails(capsys, "members", address)
    assert line.startswith(f"precedes: no member answers at {address}: Connection refused; ")
    assert "host:port" in commands.fails(capsys, "members", "nowhere")
    server = HttpServer({b"/": lambda: None})
    await server.start("127.0.0.1", 0)
    address = "{}:{}".format(*server.address)
    with pytest.raises(UserError, match=f"the server at {address} is not a member"):
        await asyncio.to_thread(fetch_status, address)
    server.close()
    async with group_of(2) as (one, _):  # the port of the group, not of its metrics
        with pytest.raises(UserError, match="member"):
            await asyncio.to_thread(fetch_status, one.config.addresses[0])


@pytest.mark.parametrize("body", [b"[]", b"{}", b"{", b'{"group": 1}'])
async def test_an_answer_of_another_shape_is_an_error(body):
    from precedes.live.http import Answer

    server = HttpServer({PATH.encode(): lambda: Answer(body)})
    await server.start("127.0.0.1", 0)
    with pytest.raises(UserError, match="is not a member"):
        await asyncio.to_thread(fetch_status, "{}:{}".format(*server.address))
    server.close()


def test_names_from_elsewhere_do_not_steer_a_terminal():
    one = {"number": 0, "name": "\x1b[2J", "address": "x\n", "vote": True}
    status = {
        "group": "g", "member": "a", "health": "ready", "epoch": 1, "problems": [],
        "members": [one], "suspected": [], "disconnected": [], "blocked": [],
    }  # fmt: skip
    assert all(line.isprintable() for line in members_text(status).splitlines())
