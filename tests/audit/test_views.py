"""The audit of views: healthy groups have no finding, and each rule convicts its defect."""

import copy
import json
import random
import struct
from contextlib import suppress

import pytest

from precedes.audit import audit, check_views
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.live.epoch import Epoch
from precedes.model import EventKind
from precedes.pipeline.audit import audit_files
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
from precedes.trace.members import MemberRows, read_members
from tests.support.groups import group_of, leave, run, take, until
from tests.support.live_logs import Group, Life, write

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
    unsent = (DELIVER, 1, 5)  # a broadcast is logged before it is sent
    history = [[item for item in items if item != unsent] for items in history]
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
    history[4] += [(BROADCAST, 4, sequence) for sequence in range(5, 10)]
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
    for member, items in enumerate(history):
        rows = [item for item in items if isinstance(item, tuple)]
        for at, (kind, source, sequence) in enumerate(rows):
            if kind == DELIVER and (source, sequence) in [row[1:] for row in rows[:at]]:
                wrong.add(("V4", member))
            if kind == DELIVER and sequence > max(own[source], default=0):
                wrong.add(("V5", member))
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
    assert convicted == {"V1", "V2", "V3", "V4", "V5", "V7"}


# Members that join -------------------------------------------------------------------------------


def entry(uid, name):
    return [uid, name, f"{uid:032x}"]


def line(kind, epoch, uid, entries, **counts):
    counts = {name.removeprefix("u"): count for name, count in counts.items()}
    about = {"kind": kind, "epoch": epoch, "group": "aa", "uid": uid}
    return {**about, "entries": [entry(*one) for one in entries], "counts": counts}


FIRST, SECOND = [(1, "a"), (2, "b")], [(1, "a"), (3, "b")]
THIRD = [(1, "a"), (3, "b"), (4, "c")]


@pytest.fixture
def joined():
    """A group of a and b, in which b is killed, restarts and learns; then c joins."""
    a, b, again, c = lives = [Life(uid, name) for uid, name in enumerate("abbc", 1)]
    a.items = [
        line("view", 1, 1, FIRST, u1=0, u2=0),
        *[(BROADCAST, 0, 1), (DELIVER, 1, 1)],
        line("view", 2, 1, SECOND, u1=1, u2=1, u3=0),
        *[(BROADCAST, 0, 2), (BROADCAST, 0, 3), (DELIVER, 2, 1)],
        line("view", 3, 1, THIRD, u1=3, u3=1, u4=0),
        *[(BROADCAST, 0, 4), (DELIVER, 2, 2)],
    ]
    b.items = [line("view", 1, 2, FIRST, u1=0, u2=0), (DELIVER, 0, 1), (BROADCAST, 1, 1)]
    again.items = [
        line("learning", 2, 3, SECOND, u1=1, u2=1, u3=0),
        line("state", 2, 3, SECOND, u1=2, u3=0),
        *[(DELIVER, 0, 3), (BROADCAST, 2, 1)],
        line("view", 3, 3, THIRD, u1=3, u3=1, u4=0),
        *[(DELIVER, 0, 4), (BROADCAST, 2, 2)],
    ]
    c.items = [
        line("learning", 3, 4, THIRD, u1=3, u3=1, u4=0),
        line("state", 3, 4, THIRD, u1=3, u3=1, u4=0),
        *[(DELIVER, 0, 4), (DELIVER, 2, 2), (BROADCAST, 3, 1)],
    ]
    a.items.append((DELIVER, 3, 1))
    again.items.append((DELIVER, 3, 1))
    for life in (a, again, c):
        life.status = ENDED
    return lives


def judged(directory, lives):
    """The findings in the logs of these members, with those that the audit has."""
    write(directory, lives)
    report = audit(MemberRows(directory), witnesses=1000)
    findings = check_views(directory, report)
    (whole,) = audit(directory, witnesses=1000)
    assert list(whole.view_findings) == [finding.text for finding in findings]
    assert whole.verdict == ("violated" if findings else report.verdict)
    return findings


def test_a_group_that_members_join_has_no_finding(joined, tmp_path):
    assert judged(tmp_path, joined) == []
    report = audit(read_members(tmp_path))
    assert (report.verdict, report.nodes, report.lost) == ("held", 4, 0)
    assert audit(tmp_path) == [report]


def test_a_delivery_of_what_the_state_contains(joined, tmp_path):
    for source, sequence in ((0, 2), (1, 1)):  # the second of a member that ended before
        lives = copy.deepcopy(joined)
        lives[2].items.insert(2, (DELIVER, source, sequence))
        (finding,) = judged(tmp_path, lives)
        text = f"member 2 (b) delivered message {source}:{sequence} in view 2, which its state"
        assert finding == ("V4", 2, 2, f"{text} contains.")


def test_a_message_twice(joined, tmp_path):
    joined[2].items.append((DELIVER, 0, 3))
    (finding,) = judged(tmp_path, joined)
    assert finding == ("V4", 2, 3, "member 2 (b) delivered message 0:3 again in view 3.")


def test_a_message_that_nobody_broadcast(joined, tmp_path):
    joined[3].items.append((DELIVER, 1, 2))
    (finding,) = judged(tmp_path, joined)
    text = "member 3 (c) delivered message 1:2 in view 3, which member 1 did not broadcast."
    assert finding == ("V5", 3, 3, text)
    joined[3].items[-1] = (DELIVER, 9, 1)
    assert [finding[:3] for finding in judged(tmp_path, joined)] == [("V5", 3, 3)]


def test_a_state_with_a_message_that_nobody_broadcast(joined, tmp_path):
    joined[3].items[1]["counts"]["4"] = 3
    del joined[3].items[4], joined[0].items[-1], joined[2].items[-1]
    (finding,) = judged(tmp_path, joined)
    text = "member 3 (c) begins with a state of view 3 that contains message 3:3, which member 3"
    assert finding == ("V5", 3, 3, f"{text} did not broadcast.")


def test_an_empty_log_excuses_what_was_sent(joined, tmp_path):
    joined[1].items = []
    assert [finding.rule for finding in judged(tmp_path, joined)] == []


def test_a_state_without_the_past_of_its_messages(joined, tmp_path):
    joined[3].items[1]["counts"]["1"] = 2
    joined[3].items.insert(2, (DELIVER, 0, 3))
    (finding,) = judged(tmp_path, joined)
    text = "member 3 (c) begins with a state of view 3 that contains message 2:1, but not message"
    assert finding == ("V6", 3, 3, f"{text} 0:3, which precedes it.")


def test_a_state_without_what_a_state_contained(joined, tmp_path):
    joined[3].items[1] = line("state", 3, 4, THIRD, u1=1, u3=1, u4=0)
    joined[3].items[2:2] = [(DELIVER, 0, 2), (DELIVER, 0, 3)]
    joined[2].items.remove((DELIVER, 0, 3))
    joined[2].items[1]["counts"]["1"] = 3
    (finding,) = judged(tmp_path, joined)
    assert finding[:3] == ("V6", 3, 3)
    assert "contains message 2:1, but not message 0:3, which precedes it." in finding.text


def test_a_delivery_before_what_the_state_of_its_sender_contains(joined, tmp_path):
    joined[3].items[1]["counts"]["1"] = 4
    joined[3].items.remove((DELIVER, 0, 4))
    items = joined[2].items
    items.remove((DELIVER, 3, 1))
    items.insert(items.index((DELIVER, 0, 4)), (DELIVER, 3, 1))
    joined[3].items.remove((DELIVER, 2, 2))
    joined[3].items.append((DELIVER, 2, 2))
    joined[0].items.remove((DELIVER, 2, 2))
    joined[0].items.append((DELIVER, 2, 2))
    (finding,) = judged(tmp_path, joined)
    text = "member 2 (b) delivered message 3:1 in view 3 before message 0:4, which the state of"
    assert finding == ("V6", 2, 3, f"{text} member 3 (c) contains.")


def test_a_delivery_before_its_past(joined, tmp_path):
    items = joined[3].items
    items[2:4] = items[3:1:-1]
    (finding,) = judged(tmp_path, joined)
    text = "member 3 (c) delivered message 2:2 in view 3 before message 0:4, which precedes it."
    assert finding == ("V6", 3, 3, text)
    assert check_views(tmp_path) == [], "the deliveries out of order are those of a report"


def test_a_newcomer_lacks_a_message(joined, tmp_path):
    joined[2].items.remove((DELIVER, 0, 3))
    joined[2].items.append((DELIVER, 0, 3))
    text = "member 2 (b) installed view 3 without message 0:3, which counts as delivered before it."
    assert ("V3", 2, 3, text) in (findings := judged(tmp_path, joined))
    joined[2].items[line_at(joined[2].items, 3)]["kind"] = "learning"
    assert ("V3", 2, 3, text) in judged(tmp_path, joined), "it has a state"
    assert {finding.rule for finding in findings} == {"V3", "V6"}, "0:4 comes before it"


def test_a_newcomer_without_a_state(joined, tmp_path):
    del joined[3].items[1]
    joined[3].items[0]["kind"] = "view"
    findings = judged(tmp_path, joined)
    assert {(f.rule, f.member) for f in findings} == {("V3", 3), ("V6", 3)}
    joined[3].items = [line("learning", 3, 4, THIRD, u1=3, u3=1, u4=0)]
    for life in joined:
        life.items = [item for item in life.items if item != (DELIVER, 3, 1)]
    assert judged(tmp_path, joined) == [], "it has not begun"


def test_a_group_without_states(joined, tmp_path):
    """A newcomer begins with its first view; the order of the two lines does not matter."""
    for kind, order in (("view", 1), ("view", -1), ("learning", 1)):
        lives = copy.deepcopy(joined)
        lives[3].items[0]["kind"] = kind
        lives[3].items[:2] = lives[3].items[:2][::order]
        assert judged(tmp_path, lives) == []


def test_the_last_message_is_missing_at_a_newcomer(joined, tmp_path):
    joined[3].items.remove((DELIVER, 2, 2))
    joined[0].items.remove((DELIVER, 3, 1))
    findings = judged(tmp_path, joined)
    assert [finding[:3] for finding in findings] == [("V7", 0, 3), ("V7", 3, 3)]
    text = "member 3 (c) ended with the group in view 3 without message 2:2 of member 2 (b), which"
    assert findings[1].text == f"{text} ended with it, too."


def test_the_view_of_a_state_differs(joined, tmp_path):
    joined[3].items[1]["entries"][0][1] = "z"
    findings = judged(tmp_path, joined)
    assert [finding[:3] for finding in findings] == [("V1", 3, 3)]


def test_a_log_of_another_life(joined, tmp_path):
    joined[1].of = "ff" * 16
    (finding,) = judged(tmp_path, joined)
    text = f"the log of member 1 (b) is of life {'ff' * 16}, but uid 2 is life {2:032x}."
    assert finding == ("V2", 1, 1, text)


def test_the_command_reports_views(joined, tmp_path, capsys):
    write(tmp_path, joined)
    assert main(["audit", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["view_findings"] == []
    joined[3].items[1]["entries"][0][1] = "z"
    write(tmp_path, joined)
    text = "members 0 and 3 have different members in view 3."
    assert main(["audit", str(tmp_path), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["verdict"], shown["view_findings"]) == ("violated", [text])
    assert main(["audit", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == ["  1 finding about views", f"  - {text}"]
    reports = audit_files(None, [tmp_path])
    assert [report.view_findings for report in reports] == [(text,)]


def test_a_log_that_is_not_there(joined, tmp_path):
    write(tmp_path, joined)
    log_path(tmp_path, 3).unlink()
    assert {finding.rule for finding in check_views(tmp_path)} == {"V5"}
    for member in (2, 1):
        log_path(tmp_path, member).unlink()
        with pytest.raises(UserError, match=f"lacks the log of member {member}"):
            check_views(tmp_path)


# Random histories of groups that members join -----------------------------------------------------


def disturb(lives, chance):
    """Change a log at random, after its first view."""
    life = chance.choice([life for life in lives if len(life.items) > 2])
    states = [item for item in life.items if isinstance(item, dict) and item["kind"] == "state"]
    rows = [at for at, item in enumerate(life.items) if not isinstance(item, dict)]
    rows = [at for at in rows if life.items[at][0] == DELIVER]
    if states and chance.random() < 0.4:
        counts = chance.choice(states)["counts"]
        uid = chance.choice([uid for uid in counts if int(uid) != life.uid])
        counts[uid] = max(counts[uid] + chance.choice([-1, 1]), 0)
    elif rows:
        at = chance.choice(rows)
        kind, source, sequence = life.items[at]
        how = chance.randrange(4)
        if how == 0:
            del life.items[at]
        elif how == 1:
            life.items.insert(chance.randint(at + 1, len(life.items)), life.items[at])
        elif how == 2:
            life.items.append(life.items.pop(at))
        else:
            life.items[at] = (kind, source, sequence + 1)


class Definitions:
    """The rules V3 to V7 as sets of messages; shares no code with the check."""

    def __init__(self, lives):
        self.lives = lives
        self.wrong = set()
        self.final, self.bases = {}, {}
        for life in lives:
            for item in self.lines(life, "view", "learning", "leave"):
                here = {uid for uid, _, _ in item["entries"]}
                counts = {int(uid): count for uid, count in item["counts"].items()}
                self.bases[item["epoch"]] = counts
                gone = {uid: n for uid, n in counts.items() if uid not in here}
                self.final |= {uid: (item["epoch"], n) for uid, n in gone.items()}
        self.sent = {}
        self.direct = {}  # message: what its sender had before
        for life in lives:
            for at, item in enumerate(life.items):
                if isinstance(item, tuple) and item[0] == BROADCAST:
                    message = (item[1] + 1, item[2])
                    self.sent[message[0]] = item[2]
                    self.direct[message] = self.had(life, at)
        self.pasts = {}
        for life in lives:
            self.judge(life)
        self.judge_ends()

    def lines(self, life, *kinds):
        return [x for x in life.items if isinstance(x, dict) and x["kind"] in kinds]

    def contents(self, state):
        counts = {uid: n for uid, (epoch, n) in self.final.items() if epoch <= state["epoch"]}
        counts |= {int(uid): n for uid, n in state["counts"].items()}
        return {(uid, i) for uid, n in counts.items() for i in range(1, n + 1)}

    def had(self, life, end):
        have = set()
        for item in life.items[:end]:
            if isinstance(item, tuple):
                have.add((item[1] + 1, item[2]))
            elif item["kind"] == "state":
                have |= self.contents(item)
        return have

    def past(self, message):
        if message not in self.pasts:
            self.pasts[message] = set()  # a cycle ends here
            # What nobody broadcast is in no past.
            direct = self.direct.get(message, set()) & self.direct.keys()
            self.pasts[message] = direct.union(*(self.past(one) for one in direct))
        return self.pasts[message]

    def due(self, epoch):
        """All that counts as delivered when an epoch begins."""
        counts = {uid: n for uid, (ended, n) in self.final.items() if ended <= epoch}
        counts |= self.bases[epoch]
        return {(uid, i) for uid, n in counts.items() for i in range(1, n + 1)}

    def judge(self, life):
        number, begun = life.uid - 1, not self.lines(life, "state")
        for at, item in enumerate(life.items):
            have = self.had(life, at)
            if isinstance(item, tuple):
                message = (item[1] + 1, item[2])
                if item[0] == DELIVER and message in have:
                    self.wrong.add(("V4", number))
                elif item[0] == DELIVER and item[2] > self.sent.get(item[1] + 1, 0):
                    self.wrong.add(("V5", number))
                elif item[0] == DELIVER and not self.past(message) <= have:
                    self.wrong.add(("V6", number))
                elif message in have:
                    self.wrong.add(("V4", number))
            elif item["kind"] == "state":
                begun, contents = True, self.contents(item)
                if any(i > self.sent.get(uid, 0) for uid, i in contents):
                    self.wrong.add(("V5", number))
                if not all(self.past(one) <= contents for one in contents):
                    self.wrong.add(("V6", number))
            elif begun and item["kind"] != "learning" and have != self.due(item["epoch"]):
                self.wrong.add(("V3", number))

    def judge_ends(self):
        ended = [life for life in self.lives if life.status == ENDED]
        for life in ended:
            last = self.lines(life, "view", "learning")[-1]["epoch"]
            have = self.had(life, len(life.items))
            if [x for x in life.items if isinstance(x, dict)][-1]["kind"] != "state":
                have |= self.due(last)  # V3 reports what is missing there
            for sender in ended:
                sent = {(sender.uid, i + 1) for i in range(self.sent.get(sender.uid, 0))}
                if not sent <= have:
                    self.wrong.add(("V7", life.uid - 1))


def test_random_groups_have_no_finding(tmp_path):
    kinds = set()
    for seed in range(60):
        group = Group(seed, founders=2 + seed % 3, has_states=seed % 4 > 0)
        directory = tmp_path / str(seed)
        assert Definitions(group.lives).wrong == set()
        group.write(directory)
        (report,) = audit(directory)
        assert report.view_findings == (), seed
        assert report.verdict == "held", seed
        assert report == audit(read_members(directory)), seed
        names = [life.name for life in group.lives]
        kinds |= {
            item["kind"] for life in group.lives for item in life.items if isinstance(item, dict)
        }
        kinds |= {"restart"} if len(set(names)) < len(names) else set()
        kinds |= {"killed"} if OPEN in [life.status for life in group.lives] else set()
    assert kinds == {"view", "leave", "learning", "state", "restart", "killed"}


def test_groups_that_members_join_agree_with_the_definitions(tmp_path):
    convicted = set()
    for seed in range(150):
        group = Group(seed, founders=2 + seed % 3, epochs=4)
        disturb(group.lives, random.Random(seed))
        wrong = Definitions(group.lives).wrong
        directory = tmp_path / str(seed)
        findings = {finding[:2] for finding in judged(directory, group.lives)}
        if audit(MemberRows(directory)).cycles:  # nothing is before what precedes itself
            findings, wrong = ({x for x in one if x[0] != "V6"} for one in (findings, wrong))
        # A state with what does not count is reported once, not at all that lack that.
        is_state = any(rule == "V3" for rule, _ in wrong)
        missed = {(rule, who) for rule, who in wrong - findings if rule != "V6" or not is_state}
        # A state that names what nobody broadcast covers nothing of that sender in the audit.
        more = {(rule, who) for rule, who in findings - wrong if ("V5", who) not in wrong}
        assert (more, missed) == (set(), set()), seed
        convicted |= {rule for rule, _ in wrong}
    assert convicted == {"V3", "V4", "V5", "V6", "V7"}
