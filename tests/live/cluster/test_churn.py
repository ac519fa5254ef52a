"""Groups of real processes whose members are replaced, join, crash and come back."""

import asyncio
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from precedes.audit import audit, check_views
from precedes.cli.live import cluster_text
from precedes.errors import Exit, UserError
from precedes.live import Config, Group
from precedes.live.cluster.churn import MAJOR, Process, Supervisor, draw_changes
from precedes.live.cluster.relay import Network
from precedes.live.cluster.replica import Tally, longest_gaps
from precedes.live.cluster.run import Cluster, run
from precedes.live.member.output import Message
from precedes.live.net import wire
from precedes.model import EventKind
from precedes.trace.member_log import HEADER_BYTES, ROW_BYTES, read_member_log
from tests.support import commands, groups
from tests.support.groups import address_of, listeners
from tests.support.places import ROOT
from tests.support.processes import printed

ROLLING = {"rolling_restart": True, "seconds": 0.5, "rate": 60.0, "tier": "interpreted"}
CHURN = {"members": 4, "seconds": 1.0, "rate": 60.0, "tier": "interpreted", "evict_after_s": 2.0}
LIMIT_S = 400.0


def clusters(given):
    """Run clusters in a process of their own; what each came to."""
    script = ROOT / "tests/support/run_clusters.py"
    lines = printed(script, json.dumps(given), timeout=LIMIT_S).splitlines()
    return [json.loads(line) for line in lines]


def judge(found):
    """Assert the guarantees that hold after any schedule of changes."""
    print(f"{found['faults']}: {found['ended']}, {found['problems']}")
    assert found["problems"] == found["hung"] == found["unexpected"] == []
    assert found["view_findings"] == found["witnesses"] == []
    assert found["verdict"] == "held"
    assert found["lost"] == found["duplicates"] == found["phantom"] == 0
    assert found["states"] == 1, "all that remain have the same state"
    assert found["deliveries"] > 0
    assert found["view_change_ms"]["p50"] > 0


def judge_rolling(found, members):
    """All processes were replaced, and all members have left in order."""
    judge(found)
    assert found["restarts"] == members
    assert found["members_at_end"] == [str(number) for number in range(members)]
    assert found["views"] >= 1 + 3 * members, "a leave, an admission and a vote for each"
    assert found["evictions"] == 0
    ends = [found["ended"][str(number)] for number in range(2 * members)]
    assert ends == ["left"] * members + ["all"] * members


def test_a_rolling_restart_replaces_all_processes_and_loses_nothing():
    protocols = ("vector", "vcube", "hashed")
    for found in clusters([{**ROLLING, "members": 3, "protocol": name} for name in protocols]):
        judge_rolling(found, 3)


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["vector", "vcube", "hashed"])
def test_a_rolling_restart_of_eight(protocol):
    (found,) = clusters([{**ROLLING, "members": 8, "rate": 200.0, "protocol": protocol}])
    judge_rolling(found, 8)


def test_schedules_of_churn():
    """All at the same time: most of it is waiting."""
    protocols = ("vector", "vcube", "hashed")
    given = [
        [{**CHURN, "churn": seed, "protocol": protocol}]
        for seed, protocol in enumerate(protocols, 1)
    ]
    with ThreadPoolExecutor(len(given)) as pool:
        for (found,) in pool.map(clusters, given):
            judge(found)
            assert found["joins"] == 1
            assert {fault["kind"] for fault in found["faults"]} >= set(MAJOR)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.gate) for seed in range(4, 16)),
        *(pytest.param(seed, marks=pytest.mark.swarm) for seed in range(16, 216)),
    ],
)
def test_more_schedules_of_churn(seed):
    protocol = ("vector", "vcube", "hashed")[seed % 3]
    (found,) = clusters([{**CHURN, "members": 5, "churn": seed, "protocol": protocol}])
    judge(found)


def test_schedules_come_from_their_seed():
    drawn = [draw_changes(seed, count=9, patience_s=2.0) for seed in range(20)]
    assert drawn[7] == draw_changes(7, count=9, patience_s=2.0)
    assert drawn[7] != drawn[8]
    for changes in drawn:
        assert sum(change.kind in MAJOR for change in changes) == 9
        assert {change.kind for change in changes} >= set(MAJOR)
        for change in changes:
            assert change.for_s <= 0.2 or change.for_s >= 3.0, "far from the patience of two"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"churn": 1, "faults": 1}, "choose one of"),
        ({"churn": 1, "rolling_restart": True}, "choose one of"),
        ({"churn": 1, "members": 2}, "churn needs 3 members or more, not 2"),
        ({"churn": 1, "secure": True}, "choose a group without secure"),
        ({"rolling_restart": True, "protocol": "probabilistic"}, "cannot be replaced"),
    ],
)
def test_changes_that_a_group_cannot_make(settings, what):
    with pytest.raises(UserError, match=what):
        Cluster(**settings)


@pytest.mark.parametrize(
    ("ended", "excuses", "is_leaving", "is_lost", "is_excused"),
    [
        ("all", (), False, False, True),
        ("left", (), True, False, True),
        ("left", (), True, True, False),
        ("left", (), False, False, False),
        ("excluded", (), False, True, False),
        ("excluded", ("excluded", "lost"), False, True, True),
        ("lost: no quorum", ("excluded", "lost"), False, True, True),
        ("replaced", ("excluded", "lost"), False, True, False),
        ("replaced", ("replaced",), False, True, True),
        (None, ("killed",), False, True, True),
        (None, (), True, False, False),
    ],
)
def test_ends_that_faults_explain(tmp_path, ended, excuses, is_leaving, is_lost, is_excused):
    supervisor = Supervisor(
        configure=None, names=["a"], directory=tmp_path, zygote=None, reports=(0, 0), load={},
        limit_s=1.0, progress=None,
    )  # fmt: skip
    one = Process(number=0, name="a", address="", control=0, relay=None, member=3)
    one.excuses |= set(excuses)
    one.is_leaving = is_leaving
    if is_lost:
        supervisor.lost.add(3)
    if ended is not None:
        result = {"ended": ended, "member": 3}
        (tmp_path / "process-0000.json").write_text(json.dumps(result))
    assert supervisor.is_excused(one) == is_excused


def test_a_newcomer_with_a_wrong_state_is_found(tmp_path, monkeypatch):
    """The logs are right, the state is not: the processes are forked from this one."""
    load = Tally.load

    def forget(tally, chunks):
        load(tally, chunks)
        del tally._senders[max(tally._senders)]

    monkeypatch.setattr(Tally, "load", forget)
    found = run(Cluster(members=3, **ROLLING), directory=tmp_path)
    assert (found["verdict"], found["problems"], found["witnesses"]) == ("violated", [], [])
    assert found["states"] > 1
    assert f"members ended with {found['states']} different states" in cluster_text(found)


def test_no_live_page_of_a_group_that_changes():
    done = commands.run("cluster", "--rolling-restart", "--watch")
    assert done.returncode == Exit.MISTAKE
    assert done.stderr.endswith("the live page shows a fixed group: leave out --watch\n")
    assert done.stdout == ""


# Logs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rolled(tmp_path_factory):
    """Result and logs of a rolling restart of three, with TLS."""
    folder = tmp_path_factory.mktemp("rolled") / "logs"
    line = ["cluster", "-n", "3", "--rolling-restart", "--seconds", "0.5", "--rate", "100"]
    done = commands.run(*line, "--interpreted", "--secure", "--trace", str(folder), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), folder


def test_text_has_the_changes(rolled):
    found, _ = rolled
    judge_rolling(found, 3)
    text = cluster_text(found)
    assert text.startswith("held: vector, 3 processes")
    assert "3 members at the end: 0, 1, 2" in text
    assert "0, 1, 2 left; 3, 4, 5 ended with the group" in text


def without_row(folder, member, kind):
    """Remove the last row of a kind from a member's log."""
    path = folder / f"member-{member:04d}.events"
    rows = (read_member_log(path).kind == kind).nonzero()[0]
    at = HEADER_BYTES + ROW_BYTES * int(rows[-1])
    data = path.read_bytes()
    path.write_bytes(data[:at] + data[at + ROW_BYTES :])


def test_a_message_that_a_newcomer_lacks_is_found(rolled, tmp_path):
    """The logs are right, and are not once a delivery or a part of a state is missing."""
    _, folder = rolled
    assert audit(folder).verdict == "held"
    copy = shutil.copytree(folder, tmp_path / "deliveries")
    without_row(copy, 5, EventKind.DELIVER)
    assert audit(copy).verdict == "violated"
    copy = shutil.copytree(folder, tmp_path / "states")
    path = copy / "member-0005.views"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (state,) = [line for line in lines if line["kind"] == "state"]
    uid = max(state["counts"], key=state["counts"].get)
    state["counts"][uid] -= 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert audit(copy).verdict == "violated"


def test_one_life_under_two_numbers_is_found(rolled, tmp_path):
    _, folder = rolled
    assert check_views(folder) == []
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / "member-0005.views"
    first, *lines = path.read_text().splitlines()
    view = json.loads(first)
    view["entries"][0][2] = view["entries"][1][2]
    path.write_text("\n".join([json.dumps(view), *lines]) + "\n")
    assert check_views(copy) != []


# Members that start at different times ----------------------------------------------------------


async def started_apart(seed):
    """Three members of a group that start up to three seconds apart; their views."""
    rng = random.Random(seed)
    socks = listeners(3)
    addresses = [address_of(sock) for sock in socks]
    common = {"founders": ("a", "b", "c"), "tier": "interpreted", "linger_s": 1.0}
    common |= {"evict_after_s": 10.0, "test_every_s": 0.5}

    async def start(name, sock, after_s):
        await asyncio.sleep(after_s)  # the input of this test
        others = tuple(one for one in addresses if one != address_of(sock))
        config = Config(member=name, address=address_of(sock), seeds=others, **common)
        group = Group.open(config, listener=sock)
        await group.__aenter__()
        return group

    delays_s = [0.0, rng.uniform(0.0, 3.0), rng.uniform(0.0, 3.0)]
    rng.shuffle(delays_s)
    started = zip("abc", socks, delays_s, strict=True)
    members = await asyncio.gather(*(start(*one) for one in started))
    views = [(member._driver.view.group, member._driver.view.uids) for member in members]
    await groups.leave_all(members)
    return views


async def test_three_members_that_start_apart_are_one_group():
    for views in await asyncio.gather(*map(started_apart, range(3))):
        assert len({group for group, _ in views}) == 1
        assert {uids for _, uids in views} == {frozenset({1, 2, 3})}


# Parts ------------------------------------------------------------------------------------------


def test_the_longest_gap_around_each_view():
    gaps = [(0, 400_000), (2_000_000, 2_000_100), (2_100_000, 2_600_000), (9_000_000, 9_900_000)]
    assert longest_gaps(gaps, [2_050_000, 5_000_000, 9_950_000]) == [500_000, 0, 900_000]
    assert longest_gaps([], [1]) == [0]


def test_a_tally_does_not_depend_on_the_order_of_concurrent_messages():
    messages = [Message(sender, n, b"%d" % n) for sender in range(3) for n in range(1, 4)]
    one, other = Tally(), Tally()
    for message in messages:
        one.apply(message)
    for message in messages[::-1][:5]:
        other.apply(message)
    assert one.digest() != other.digest()
    again = Tally()
    again.load([other.dump()[:3], other.dump()[3:]])
    for message in messages[:4]:
        again.apply(message)
    assert again.digest() == one.digest()


def test_a_zygote_starts_signals_and_reaps_processes():
    """Its processes get descriptors of their own, and end with it."""
    script = ROOT / "tests/support/zygote.py"
    found = json.loads(printed(script, timeout=60.0))
    assert found == {"texts": ["process 1: hello", "process 2: hello"], "ended": [2, 1]}


async def test_a_relay_holds_back_one_direction():
    """Of the bytes of two members; a reset breaks their connections."""
    sock = listeners(1)[0]
    network, loop = Network(), asyncio.get_running_loop()
    relay = await network.add("b")
    relay.target = sock.getsockname()
    sock.setblocking(False)
    host, port = relay.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    hello = wire.Hello("a", "b", bytes(16), bytes(16), bytes(16), 0, "127.0.0.1:1").encode()
    writer.write(hello + b"first")
    accepted, _ = await loop.sock_accept(sock)
    far_reader, far = await asyncio.open_connection(sock=accepted)
    assert await far_reader.readexactly(len(hello) + 5) == hello + b"first"
    network.hold("a", "b")
    writer.write(b"second")
    far.write(b"answer")
    assert await reader.readexactly(6) == b"answer"
    waiting = asyncio.ensure_future(far_reader.readexactly(6))
    far.write(b"answer")
    assert await reader.readexactly(6) == b"answer"
    assert not waiting.done()
    network.release("a", "b")
    assert await waiting == b"second"
    network.reset("a", "b")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    await network.close()
    for end in (writer, far, sock):
        end.close()
