"""The audit of views: healthy groups have no finding, and each rule convicts its defect."""

import copy
import random
import struct
from contextlib import suppress

import pytest

from precedes.audit import check_views
from precedes.errors import UserError
from precedes.live.epoch import Epoch
from precedes.model import EventKind
from precedes.trace.member_log import (
    ENDED,
    LEFT,
    OPEN,
    LogWriter,
    log_path,
    read_member_log,
    read_views,
    view_row,
)
from tests.support.groups import group_of, leave, run, take, until

BROADCAST, DELIVER = int(EventKind.BROADCAST), int(EventKind.DELIVER)

# A history is a list for each member of its events (kind, source, sequence) and its lines about
# views, in order.


def read(directory, members):
    """The history of a group, and how its members ended."""
    history, status = [], []
    for member in range(members):
        log = read_member_log(log_path(directory, member))
        columns = (log.kind, log.source, log.sequence)
        items = list(zip(*(column.tolist() for column in columns), strict=True))
        for before, line in enumerate(read_views(log.path)):
            items.insert(line.pop("rows") + before, line)
        history.append(items)
        status.append(log.status)
    return history, status


def found(directory, history, status):
    """The findings in the logs of a history."""
    for member, items in enumerate(history):
        log = LogWriter(str(directory), member=member, members=len(history), about={})
        for item in items:
            if isinstance(item, dict):
                assert log.append([view_row(0, 0, left=True)], at_once=False)
                assert log.append_view(item)
            else:
                kind, source, sequence = item
                row = struct.pack("<qq", 0, kind << 56 | source << 32 | sequence)
                assert log.append([row], at_once=False)
        log.close(status[member])
    return check_views(directory)


def rules(findings):
    return {finding.rule for finding in findings}


async def with_changes(directory, protocol):
    """A group of five, of which one leaves and one is lost."""
    settings = {"trace": str(directory), "protocol": protocol, "evict_after_s": 2.0}
    async with group_of(5, **settings) as groups:
        for group in groups:
            group.on_message(lambda message: None)
            await group.broadcast_many([b"one", b"two", b"three"])
        *stay, leaver, lost = groups
        await lost.broadcast(b"last")
        await leave(lost)
        await until(lambda: all(group.view == [0, 1, 2, 3] for group in stay))
        for group in stay:
            await group.broadcast(b"four")
        await leaver.broadcast(b"last")
        await leaver.__aexit__(None, None, None)
        await until(lambda: all(group.view == [0, 1, 2] for group in stay))
        for group in stay:
            await group.broadcast(b"five")
        for group in stay:
            await group.finish()
        await until(lambda: all(group.is_finished for group in stay))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recorded")
    run(with_changes(directory, "vector"))
    assert check_views(directory) == []
    return read(directory, 5)


@pytest.fixture
def group(recorded):
    history, status = recorded
    return copy.deepcopy(history), list(status)


def line_at(items, epoch):
    """The place of the line about the view of an epoch."""
    return next(i for i, x in enumerate(items) if isinstance(x, dict) and x["epoch"] == epoch)


def test_a_healthy_group_has_no_finding(group, tmp_path):
    history, status = group
    assert status == [ENDED] * 3 + [LEFT] * 2
    kinds = [[item["kind"] for item in items if isinstance(item, dict)] for items in history]
    assert kinds == [["view"] * 3] * 3 + [["view", "view", "leave"], ["view"]]
    line = history[0][line_at(history[0], 3)]
    assert line["counts"] == {"1": 4, "2": 4, "3": 4, "4": line["counts"]["4"]}
    assert [entry[:2] for entry in line["entries"]] == [[1, "0"], [2, "1"], [3, "2"]]
    assert found(tmp_path, history, status) == []


@pytest.mark.parametrize("protocol", ["bundled", "vcube", "hashed"])
def test_other_protocols_have_no_finding(tmp_path, protocol):
    run(with_changes(tmp_path, protocol))
    history, _ = read(tmp_path, 5)
    counts = [item["counts"] for items in history for item in items if isinstance(item, dict)]
    assert all((count is None) == (protocol == "bundled") for count in counts)
    assert check_views(tmp_path) == []


def test_killed_members_and_those_that_never_began_have_no_finding(group, tmp_path):
    history, status = group
    history[1], status[1] = history[1][: line_at(history[1], 3) - 1], OPEN
    history[2], status[2] = [], OPEN
    assert found(tmp_path, history, status) == []
    with log_path(tmp_path, 1).with_suffix(".views").open("a") as file:
        file.write('{"rows": 1, "kind": "vi')
    assert check_views(tmp_path) == []
    for path in tmp_path.glob("*.views"):
        path.unlink()
    assert check_views(tmp_path) == [], "logs without views are not checked"


def test_a_message_that_counts_is_missing(group, tmp_path):
    history, status = group
    history[1].remove((DELIVER, 0, 2))
    (finding,) = found(tmp_path, history, status)
    text = "member 1 installed view 2 without message 0:2, which counts as delivered before it."
    assert finding == ("V3", 1, 2, text)


def test_a_leaver_lacks_a_message(group, tmp_path):
    history, status = group
    history[3].remove((DELIVER, 2, 4))
    (finding,) = found(tmp_path, history, status)
    text = "member 3 left with view 3 without message 2:4, which counts as delivered before it."
    assert finding == ("V3", 3, 3, text)


def test_a_message_that_does_not_count_was_delivered(group, tmp_path):
    history, status = group
    history[0].insert(line_at(history[0], 3), (DELIVER, 4, 9))
    (finding,) = found(tmp_path, history, status)
    assert (finding.rule, finding.member, finding.epoch) == ("V3", 0, 3)
    assert "member 0 had message 4:9 when it installed view 3, where only" in finding.text


def test_a_message_was_delivered_an_epoch_too_early(group, tmp_path):
    history, status = group
    history[0].remove((DELIVER, 1, 5))
    history[0].insert(line_at(history[0], 3), (DELIVER, 1, 5))
    assert [f[:3] for f in found(tmp_path, history, status)] == [("V3", 0, 3), ("V7", 0, 3)]


def test_events_without_a_view(group, tmp_path):
    history, status = group
    history[4] = [item for item in history[4] if not isinstance(item, dict)]
    assert [f[:3] for f in found(tmp_path, history, status)] == [("V3", 4, 0)]


def test_two_views_of_one_epoch(group, tmp_path):
    history, status = group
    history[2][line_at(history[2], 2)]["entries"].pop()
    (finding,) = found(tmp_path, history, status)
    text = "members 0 and 2 have different members in view 2."
    assert (finding.rule, finding.text) == ("V1", text)


def test_two_ends_of_one_epoch(group, tmp_path):
    """A member has less, and its view agrees with that."""
    history, status = group
    history[1].remove((DELIVER, 4, 4))
    history[1][line_at(history[1], 2)]["counts"]["5"] = 3
    (finding,) = found(tmp_path, history, status)
    assert (finding.rule, finding.text) == (
        "V1",
        "members 0 and 1 have different counts in view 2.",
    )


def test_a_name_twice(group, tmp_path):
    history, status = group
    for items in history:
        items[line_at(items, 1)]["entries"][1][1] = "0"
    findings = found(tmp_path, history, status)
    assert {finding.rule for finding in findings} == {"V1"}
    assert findings[0].text == "view 1 of member 0 has the name '0' twice."


def test_a_gap_in_the_broadcasts(group, tmp_path):
    history, status = group
    history[4].remove((BROADCAST, 4, 2))
    (finding,) = found(tmp_path, history, status)
    text = "member 4 broadcast message 4:3 instead of 4:2."
    assert (finding.rule, finding.text) == ("V2", text)


def test_a_broadcast_in_the_name_of_another(group, tmp_path):
    history, status = group
    history[4].append((BROADCAST, 0, 5))
    (finding,) = found(tmp_path, history, status)
    text = "member 4 broadcast message 0:5, which is not its own."
    assert (finding.rule, finding.text) == ("V2", text)


def test_two_lives_of_a_uid(group, tmp_path):
    history, status = group
    for items in history:
        with suppress(StopIteration):
            items[line_at(items, 3)]["entries"][0][2] = "00" * 16
    findings = found(tmp_path, history, status)
    assert rules(findings) == {"V2"}
    assert findings[0].text.startswith(f"uid 1 is life {'00' * 16} in view 3 of member 0, and")


def test_two_logs_of_a_uid(group, tmp_path):
    history, status = group
    for item in history[4]:
        if isinstance(item, dict):
            item["uid"] = 1
    assert rules(found(tmp_path, history, status)) == {"V2"}


def test_the_end_of_the_last_epoch_is_missing(group, tmp_path):
    history, status = group
    history[2].remove((DELIVER, 1, 5))
    (finding,) = found(tmp_path, history, status)
    assert finding[:3] == ("V7", 2, 3)
    assert "without message 1:5 of member 1, which ended with it, too." in finding.text
    status[1] = LEFT
    assert found(tmp_path, history, status) == [], "its sender did not end with the group"


def test_damaged_lines(group, tmp_path):
    found(tmp_path, *group)
    path = log_path(tmp_path, 1).with_suffix(".views")
    text = path.read_text()
    for damaged in ("nonsense\n", "[]\n", text.replace('"epoch"', '"era"')):
        path.write_text(damaged)
        with pytest.raises(UserError, match="damaged"):
            check_views(tmp_path)


@pytest.mark.parametrize("loses", [False, True])
def test_a_change_that_loses_a_message_is_convicted(tmp_path, monkeypatch, loses):
    """Only member 0 has the last message of a lost one; member 1 gets it with the change."""
    flushed, flushes = Epoch.flushed, []

    def flush(epoch, messages, now_ns):
        flushes.append([name for name, _ in messages])
        return flushed(epoch, messages[loses:], now_ns)

    def deaf(driver):
        """Lose the data of member 2."""
        on_bodies = driver.on_bodies
        driver.on_bodies = lambda peer, bodies: on_bodies(
            peer, [(epoch, body) for epoch, body in bodies if peer != 2 or epoch == 0]
        )

    async def change():
        async with group_of(3, trace=str(tmp_path), evict_after_s=2.0) as (one, two, lost):
            deaf(two._driver)
            await lost.broadcast(b"last")
            await take(one, 1)
            await leave(lost)
            await until(lambda: one.view == two.view == [0, 1])

    monkeypatch.setattr(Epoch, "flushed", flush)
    run(change())
    assert flushes == [[(2, 1)]]
    text = "member 1 installed view 2 without message 2:1, which counts as delivered before it."
    assert check_views(tmp_path) == ([("V3", 1, 2, text)] if loses else [])


# Random histories ---------------------------------------------------------------------------------


def healthy(chance, members=3, epochs=3):
    """A random history without a defect; members may be lost, in any epoch but the last."""
    history = [[] for _ in range(members)]
    counts = dict.fromkeys(range(1, members + 1), 0)
    present = list(range(members))
    for epoch in range(1, epochs + 1):
        for member in present:
            entries = [[m + 1, f"name-{m}", f"{m:02x}"] for m in present]
            about = {"kind": "view", "epoch": epoch, "group": "aa", "uid": member + 1}
            history[member].append({**about, "entries": entries, "counts": {**counts}})
        for _ in range(chance.randint(0, 4)):
            sender = chance.choice(present)
            counts[sender + 1] += 1
            for member in present:
                kind = BROADCAST if member == sender else DELIVER
                history[member].append((kind, sender, counts[sender + 1]))
        if epoch < epochs and len(present) > 2 and chance.random() < 0.3:
            present.remove(chance.choice(present))
    return history, [ENDED if member in present else OPEN for member in range(members)]


def spoil(history, chance):
    """Change a log at random."""
    items = chance.choice(history)
    at = chance.randrange(len(items))
    if isinstance(items[at], dict):
        counts = items[at]["counts"]
        uid = chance.choice(list(counts))
        counts[uid] = max(counts[uid] + chance.choice([-1, 1]), 0)
    elif (how := chance.randrange(3)) == 0:
        del items[at]
    elif how == 1:
        items.insert(chance.randint(1, len(items) - 1), items.pop(at))
    else:
        kind, source, sequence = items[at]
        items[at] = (kind, source, sequence + 1)


def expected(history, status):
    """The rules and members with a finding, by the definitions."""
    wrong, view, last, own = set(), {}, {}, {}
    for member, items in enumerate(history):
        have, own[member] = set(), []
        for item in items:
            if isinstance(item, dict):
                due = {(uid - 1, i + 1) for uid, n in item["counts"].items() for i in range(n)}
                if have != due:
                    wrong.add(("V3", member))
                if view.setdefault(item["epoch"], item["counts"]) != item["counts"]:
                    wrong.add(("V1", member))
                last[member] = (item["counts"], set())
            else:
                have.add(item[1:])
                last[member][1].add(item[1:])
                if item[0] == BROADCAST:
                    own[member].append(item[2])
        if own[member] != list(range(1, len(own[member]) + 1)):
            wrong.add(("V2", member))
    for member in range(len(history)):
        for sender in range(len(history)):
            if status[member] == status[sender] == ENDED:
                counts, delivered = last[member]
                after = range(counts[sender + 1] + 1, max(own[sender], default=0) + 1)
                if not {(sender, i) for i in after} <= delivered:
                    wrong.add(("V7", member))
    return wrong


def test_agrees_with_the_definitions(tmp_path):
    convicted = set()
    for seed in range(100):
        chance = random.Random(seed)
        history, status = healthy(chance)
        assert expected(history, status) == set()
        if seed % 5:
            spoil(history, chance)
        wrong = expected(history, status)
        findings = found(tmp_path, history, status)
        assert {finding[:2] for finding in findings} == wrong, seed
        convicted |= {rule for rule, _ in wrong}
    assert convicted == {"V1", "V2", "V3", "V7"}
