"""Logs that are followed while they are written: cut anywhere, restarted anywhere."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from precedes.audit import audit, follow
from precedes.audit.growing import Follower, following
from precedes.audit.growing.kernel import SMALL, Room
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import Dialect, event_batches, load, member_log, read_members
from precedes.trace.members import holds_member_logs
from precedes.trace.tail import open_tail
from tests.audit.growing.test_cuts import SEEDS, grown
from tests.support import cuts, executions, growing, live_logs
from tests.support.executions import BROADCAST, DELIVER, Execution

QUICK = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


def restarted(follower, path, rng, **options):
    """The same follower, or one that goes on from its state."""
    if rng.random() < 0.7:
        return follower
    follower.save(path)
    again = Follower(open_tail(follower.tail.title), **options)
    again.restore(path)
    assert again.standing() == replace(
        follower.standing(), report=replace(follower.standing().report, witnesses=())
    )
    return again


def poll_all(follower, seen):
    """Read what is there; nothing that was found before is taken back."""
    while follower.poll():
        pass
    report = follower.standing().report
    now = (report.violations, report.violating_messages, report.duplicates, report.cycles)
    assert all(after >= before for after, before in zip(now, seen, strict=True))
    return now


@pytest.fixture(params=["one file", "a file a node"])
def home(request, tmp_path_factory):
    return request.param, tmp_path_factory


@given(grown(), SEEDS)
@QUICK
def test_lines_cut_anywhere_and_restarts(home, execution, seed):
    kind, factory = home
    folder, rng = factory.mktemp("log"), random.Random(seed)
    source = folder / "log.jsonl" if kind == "one file" else folder
    (folder / "log.jsonl").touch() if kind == "one file" else None
    files = {}
    for node, line in growing.lines(execution, seed):
        name = "log.jsonl" if kind == "one file" else f"n{node}.jsonl"
        files.setdefault(name, []).append(line.encode())
    (folder / "n0.jsonl").touch() if kind != "one file" else None
    left = {name: list(growing.pieces(b"".join(parts), rng)) for name, parts in files.items()}
    follower, seen = Follower(open_tail(source)), (0, 0, 0, 0)
    while any(left.values()):
        name = rng.choice([name for name, parts in left.items() if parts])
        with (folder / name).open("ab") as file:
            file.write(left[name].pop(0))
        if rng.random() < 0.3:
            seen = poll_all(follower, seen)
            follower = restarted(follower, folder / "work/state", rng)
    standing = follower.end(complete=execution.complete)
    everything = b"".join(b"".join(parts) for _, parts in sorted(files.items()))
    whole = folder / "whole"
    whole.write_bytes(everything)
    history = load(whole, format="jsonl", dialect=Dialect(complete=execution.complete))[0]
    assert standing.report == replace(audit(history), origin=str(source))
    assert standing.is_final


@given(grown(), SEEDS)
@QUICK
def test_members_cut_anywhere_and_restarts(tmp_path_factory, execution, seed):
    folder, rng = tmp_path_factory.mktemp("group"), random.Random(seed)
    rows, nodes = cuts.rows_of(execution), len(execution.logs)
    waiting = list(range(nodes))
    rng.shuffle(waiting)
    group, follower, seen = {}, None, (0, 0, 0, 0)
    while waiting or any(member.data for member in group.values()):
        if waiting and rng.random() < 0.3:  # a member that starts later
            who = waiting.pop()
            group[who] = growing.Member(folder, who, nodes, rows[who])
        for member in group.values():
            if rng.random() < 0.5:
                member.write(rng.choice((3, 16, 40, 400)))
        follower = follower or (Follower(tail) if (tail := open_tail(folder)) else None)
        if follower is not None and rng.random() < 0.4:
            seen = poll_all(follower, seen)
            follower = restarted(follower, folder / "work/state", rng)
    ended = [who for who in range(nodes) if rng.random() < 0.8]
    for who in ended:
        group[who].end(member_log.ENDED)
    follower = follower or Follower(open_tail(folder))
    poll_all(follower, seen)
    assert follower.tail.is_over(quiet_s=0) == (len(ended) == nodes)
    assert follower.tail.is_over(quiet_s=60) == bool(ended)
    assert follower.end().report == audit(read_members(folder))


@given(grown(), SEEDS)
@QUICK
def test_changes_of_views_change_no_report(tmp_path_factory, execution, seed):
    rng, rows, nodes = random.Random(seed), cuts.rows_of(execution), len(execution.logs)
    ended = [rng.random() < 0.8 for _ in rows]
    found = []
    for share in (0.0, 0.5):
        folder = tmp_path_factory.mktemp("group")
        for who, own in enumerate(rows):
            mixed = []
            for row in [*own, None]:
                while rng.random() < share:
                    mixed.append(("view", (rng.randrange(nodes), rng.randrange(2))))
                mixed += [row] if row is not None else []
            log = growing.Member(folder, who, nodes, mixed)
            log.write(1 << 20)
            log.end(member_log.ENDED if ended[who] else member_log.LEFT)
        follower = Follower(open_tail(folder))
        poll_all(follower, (0, 0, 0, 0))
        report = audit(read_members(folder))
        assert follower.end().report == report
        events = [row for batch in event_batches(folder) for row in batch.to_pylist()]
        for row in events:
            del row["time_us"]  # which is the place of a row here
        found.append((replace(report, origin=""), events))
    assert found[0] == found[1]


@pytest.mark.parametrize("looked", [False, True])
def test_a_group_that_ends_just_before_it_is_stopped(tmp_path, looked):
    rows = cuts.rows_of(Execution([[(BROADCAST, (0, 1))], [(DELIVER, (0, 1))]]))
    group = [growing.Member(tmp_path, who, 2, rows[who]) for who in range(2)]
    group[0].write(400)
    calls = iter(range(9))

    def is_stopped():
        """After the group has ended, with or without a look at it before."""
        if next(calls) < looked:
            return False
        group[1].write(400)
        for member in group:
            member.end(member_log.ENDED)
        return True

    standings = list(follow(str(tmp_path), every_s=0.01, is_stopped=is_stopped))
    assert not group[1].data
    assert standings[-1].is_final
    assert standings[-1].report == audit(read_members(tmp_path))


def held(folder, *, swapped=False):
    """A log of three nodes in which all is well, or one delivery comes too early."""
    a, b = (0, 1), (1, 1)
    order = [b, a] if swapped else [a, b]
    logs = [[(BROADCAST, a), (DELIVER, b)], [(DELIVER, a), (BROADCAST, b)]]
    execution = Execution([*logs, [(DELIVER, m) for m in order]])
    path = folder / "log.jsonl"
    path.write_text("".join(line for _, line in growing.lines(execution, 1)))
    return path


@pytest.mark.parametrize(("swapped", "verdict"), [(False, "held"), (True, "violated")])
def test_a_verdict_with_its_witness(tmp_path, swapped, verdict):
    path = held(tmp_path, swapped=swapped)
    *_, last = follow(str(path), every_s=0.01, idle_s=0.02)
    assert (last.report.verdict, last.is_final) == (verdict, False)
    assert last.rows_read == last.rows_judged == 6
    assert [w.sentence for w in last.report.witnesses] == [
        "node n2 delivered 1:1 before 0:1, but 0:1 precedes 1:1: node n0 broadcast 0:1, "
        "node n1 delivered 0:1 and then broadcast 1:1."
    ] * swapped


@pytest.mark.parametrize(("swapped", "verdict"), [(False, "held"), (True, "violated")])
def test_tables(tmp_path, swapped, verdict):
    """Rows of CSV, in pieces that end anywhere, with an end of line inside a cell."""
    rows = [json.loads(line) for line in held(tmp_path, swapped=swapped).read_text().splitlines()]
    text = "host,what,kind\n"
    text += "".join(f'{row["node"]},"m\n{row["message"]}",{row["kind"]}\n' for row in rows)
    path, dialect = tmp_path / "log.csv", Dialect(columns={"node": "host", "message": "what"})
    path.touch()
    follower = Follower(open_tail(path, dialect=dialect))
    for piece in growing.pieces(text.encode(), random.Random(3)):
        with path.open("ab") as file:
            file.write(piece)
        poll_all(follower, (0, 0, 0, 0))
    assert follower.standing().report.verdict == verdict
    assert follower.end().report == audit(*load(path, dialect=dialect))


def test_rows_of_a_table_in_their_order(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("node,local_seq,kind,message\na,1,broadcast,x\na,3,broadcast,y\n")
    follower = Follower(open_tail(path))
    assert follower.poll()
    with path.open("a") as file:
        file.write("b,1,deliver,x\na,2,broadcast,z\n")
    with pytest.raises(UserError, match="node a has position 2 after 3"):
        follower.poll()


def test_who_is_waited_for(tmp_path):
    path = held(tmp_path)
    with path.open("a") as file:
        file.write('{"node": "n2", "kind": "deliver", "message": "late"}\n')
        file.write('{"node": "n2", "kind": "deliver", "message": "later"}\n')
    follower = Follower(open_tail(path))
    assert follower.poll()
    standing = follower.standing()
    assert (standing.rows_judged, standing.rows_read) == (6, 8)
    assert [str(wait) for wait in standing.waiting] == ["node n2, row 2, waits for late"]
    assert standing.report.verdict == "held"
    end = follower.end()
    assert (end.report.verdict, end.report.phantom, end.waiting) == ("violated", 2, ())


def test_what_was_never_delivered_may_still_come(tmp_path):
    """At the time of a violation nobody knows that a message never comes."""
    path = held(tmp_path, swapped=True)
    text = path.read_text().splitlines(keepends=True)
    last = max(at for at, line in enumerate(text) if '"n2"' in line)
    path.write_text("".join(line for at, line in enumerate(text) if at != last))
    follower = Follower(open_tail(path))
    follower.poll()
    (witness,) = follower.standing().report.witnesses
    assert "before 0:1, but 0:1 precedes 1:1: node n0" in witness.sentence
    (witness,) = follower.end().report.witnesses
    assert "but never delivered 0:1" in witness.sentence


FEW = Room(entries=2, ring=1 << 10, gaps=1 << 10)  # so that messages are dropped soon


def test_a_node_that_appears_late_has_the_log_read_again(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = []
    for number in range(50):
        rows += [("a", "broadcast", number), ("b", "deliver", number)]
    path.write_text("".join(map(line_of, rows)))
    follower = Follower(open_tail(path), open_bytes=0, room=FEW)
    while follower.poll():
        pass
    with path.open("a") as file:
        file.write("".join(line_of(("c", "deliver", m)) for m in (0, 1, 3, 2)))
    while follower.poll():
        pass
    report = follower.end().report
    assert report == audit(*load(path))
    assert (report.nodes, report.violations, report.deliveries) == (3, 1, 54)


def test_a_log_that_is_read_again_is_read_to_its_end(tmp_path):
    """Behind rows that are not judged, and with a last line that lacks its end."""
    rows = [row for n in range(50) for row in (("a", "broadcast", n), ("b", "deliver", n))]
    skipped = line_of(("a", "send", "x" * 1000)) * 2200
    text = "".join(map(line_of, rows)) + skipped + line_of(("b", "deliver", 7))
    path = tmp_path / "log.jsonl"
    path.write_text(text + line_of(("c", "deliver", 1)).rstrip())
    report = Follower(open_tail(path), open_bytes=0, room=FEW).end().report
    assert report == audit(*load(path))
    assert (report.nodes, report.violations, report.duplicates) == (3, 1, 1)


def line_of(row):
    return json.dumps(dict(zip(("node", "kind", "message"), row, strict=True))) + "\n"


def test_a_silent_node_holds_back_a_bounded_state(tmp_path):
    bounds = {"bytes_max": 500_000, "room": Room(entries=1 << 10, ring=1 << 10, gaps=1 << 10)}
    group = [[(BROADCAST, (0, n + 1)) for n in range(9000)], [], []]
    group[1] = [(DELIVER, m) for _, m in group[0]]
    for member, rows in enumerate(group):
        growing.Member(tmp_path, member, 3, rows).write(1 << 20)
    small = Follower(open_tail(tmp_path), **bounds)
    with pytest.raises(UserError, match="node 2 holds it back"):
        poll_all(small, (0, 0, 0, 0))
    growing.Member(tmp_path, 2, 3, group[1]).write(1 << 20)
    again = Follower(open_tail(tmp_path), **bounds)
    while again.poll():
        pass
    assert again.standing().report.verdict == "held"


def test_the_log_is_the_buffer_of_a_node_that_waits(tmp_path, monkeypatch):
    """Of a node that waits no more is read than some rows, until the end."""
    monkeypatch.setattr(following, "REST_ROWS_MIN", 10)
    monkeypatch.setattr(following, "REST_SHARE", 1 << 40)
    monkeypatch.setattr("precedes.trace.tail.READ_BYTES", 16 * 8)
    sent = [(BROADCAST, (0, n + 1)) for n in range(100)]
    heard = [(DELIVER, (0, 999)), *((DELIVER, m) for _, m in reversed(sent))]
    for member, rows in enumerate([sent, heard]):
        log = growing.Member(tmp_path, member, 2, rows)
        log.write(1 << 20)
        log.end(member_log.ENDED)
    follower = Follower(open_tail(tmp_path))
    poll_all(follower, (0, 0, 0, 0))
    standing = follower.standing()
    assert (standing.rows_judged, standing.rows_read) == (100, 116)
    report = follower.end().report
    assert report == audit(read_members(tmp_path))
    assert (report.violations, report.phantom) == (99, 1)


def mistakes(tmp_path):
    path = held(tmp_path)
    follower = Follower(open_tail(path))
    follower.poll()
    return path, follower


def test_a_file_that_shrinks_or_is_replaced(tmp_path):
    path, follower = mistakes(tmp_path)
    text = path.read_text()
    path.write_text(text[:-30])
    with pytest.raises(UserError, match="has become shorter"):
        follower.poll()
    path.write_text(text.replace("n2", "n3") + text)
    with pytest.raises(UserError, match="replaced by another"):
        follower.poll()
    path.unlink()
    with pytest.raises(UserError, match="is gone"):
        follower.poll()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{nonsense\n", "line 7: not a JSON object"),
        ('{"node": "a", "kind": "deliver"}\n', "line 7: \"message\" is miss"),
        ('{"node": 1.5, "kind": "deliver", "message": 1}\n', "line 7: \"node\" must be"),
        ('{"node": "a", "kind": "flew", "message": 1}\n', "line 7: unknown kind 'flew'"),
        ('{"node": "a", "kind": "broadcast", "message": "0:1"}\n', "line 7: message 0:1 is broad"),
    ],
)  # fmt: skip
def test_mistakes_in_lines(tmp_path, line, what):
    path, follower = mistakes(tmp_path)
    with path.open("a") as file:
        file.write(line)
    with pytest.raises(UserError, match=what):
        follower.poll()


def test_mistakes_in_places(tmp_path):
    path = held(tmp_path)
    (tmp_path / "other.jsonl").write_text(line_of(("n0", "broadcast", "x")))
    with pytest.raises(UserError, match="node n0 has lines in log"):
        Follower(open_tail(tmp_path)).poll()
    with pytest.raises(UserError, match="there is no log"):
        follow(str(tmp_path / "none"))
    with pytest.raises(UserError, match="cannot follow logs of format"):
        follow(str(path), format="precedes")
    with pytest.raises(UserError, match="is a file"):
        follow(str(path), format="members")
    follower = Follower(open_tail(path))
    follower.save(tmp_path / "state")
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-1])
    with pytest.raises(UserError, match="is damaged"):
        Follower(open_tail(path)).restore(tmp_path / "state")


def test_a_member_that_was_restarted(tmp_path):
    growing.Member(tmp_path, 0, 1, [(BROADCAST, (0, 1))]).write(16)
    follower = Follower(open_tail(tmp_path))
    assert follower.poll()
    growing.Member(tmp_path, 0, 1, [(BROADCAST, (0, 1))] * 3).write(48)
    with pytest.raises(UserError, match="member 0 was restarted"):
        follower.poll()


def test_a_log_that_lacks_events(tmp_path):
    growing.Member(tmp_path, 0, 1, []).end(member_log.BROKEN)
    with pytest.raises(UserError, match="lacks events"):
        Follower(open_tail(tmp_path)).poll()


def command(*options):
    return [sys.executable, "-m", "precedes.cli", "audit", "--follow", "--every", "0.05", *options]


def test_killed_and_restarted_it_ends_as_the_audit(tmp_path, monkeypatch):
    """The process is killed at random times; its state is written all the time."""
    execution = executions.run(7, nodes=4, messages=60, order="fifo")
    rows = [line for _, line in growing.lines(execution, 3)]
    path, work = tmp_path / "log.jsonl", tmp_path / "work"
    path.write_text("")
    code = "import sys; from precedes.audit.growing import following; following.SAVE_EVERY_S = 0;"
    code += "from precedes.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = command(str(path), "--json", "--work", str(work))[3:]
    rng = random.Random(11)
    for at in range(0, len(rows), 150):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()  # it is there
        with path.open("a") as file:
            file.write("".join(rows[at : at + 150]))
        time.sleep(rng.uniform(0.0, 0.2))
        process.kill()
        process.communicate(timeout=30)
    done = subprocess.run(
        [*command(str(path), "--json", "--work", str(work), "--idle", "0.1", "--complete")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    last = json.loads(done.stdout.splitlines()[-1])
    report = audit(*load(path, dialect=Dialect(complete=True)))
    assert (work / following.STATE).exists()
    assert done.returncode == 1
    assert last["final"]
    for name in ("violations", "deliveries", "violating_messages", "lost"):
        assert last[name] == getattr(report, name), name
    assert report.violations


@pytest.mark.parametrize(("swapped", "status"), [(False, 0), (True, 1)])
def test_the_command_goes_on_until_it_is_interrupted(tmp_path, swapped, status):
    path = held(tmp_path, swapped=swapped)
    with subprocess.Popen(command(str(path)), stdout=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == status
    assert first.startswith("violated: 1 of 4 " if swapped else "held so far: 4 deliveries")
    assert ("n2 delivered" in rest) == swapped


def test_the_command_may_end_with_the_first_violation(tmp_path, capsys):
    path = held(tmp_path, swapped=True)
    assert main(["audit", "--follow", "--until-violated", str(path)]) == 1
    assert main(["audit", "--follow", os.devnull, str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_members_that_join(tmp_path):
    """Logs of random groups that grow, with their lines about views, and restarts."""
    for seed in range(40):
        rng = random.Random(seed)
        group = live_logs.Group(seed, founders=2 + seed % 3, has_states=seed % 4 > 0)
        directory = tmp_path / str(seed)
        directory.mkdir()
        (follower, work) = (None, str(directory / "state"))
        for _ in live_logs.grown(group.lives, directory, rng):
            if follower is None and holds_member_logs(Address.of(directory)):
                follower = Follower(open_tail(str(directory)), room=SMALL, open_bytes=0)
                assert not follower.tail.is_closed
            if follower is not None and rng.random() < 0.3:
                follower.poll()
            if follower is not None and rng.random() < 0.1:
                follower.save(work)
                follower = Follower(open_tail(str(directory)), room=SMALL, open_bytes=0)
                follower.restore(work)
        report = follower.end().report
        (whole,) = audit(directory)
        assert report == whole, seed
        assert report.verdict == "held", seed


def test_views_are_checked_at_the_end(tmp_path):
    group = live_logs.Group(6, founders=3)
    life = next(life for life in reversed(group.lives) if life.status == member_log.ENDED)
    group.write(tmp_path)
    *_, standing = follow(str(tmp_path))
    assert (standing.report.verdict, standing.report.view_findings) == ("held", ())
    life.items.append({**next(x for x in life.items if isinstance(x, dict)), "entries": []})
    group.write(tmp_path)
    *_, standing = follow(str(tmp_path))
    assert standing.report.verdict == "violated"
    assert "different members" in standing.report.view_findings[0]
