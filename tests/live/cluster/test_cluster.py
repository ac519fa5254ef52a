"""Groups of real processes: load, faults, and an audit that is not fooled."""

import contextlib
import json
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from precedes import compiled
from precedes.audit import audit
from precedes.cli.live import cluster_text
from precedes.errors import Exit, UserError
from precedes.live import Config
from precedes.live.cluster import run
from precedes.live.cluster.faults import Outage, disturbances, draw, latencies
from precedes.live.metrics import RateLimiter
from precedes.provenance import made_by
from precedes.trace import load, read_members, read_metadata
from precedes.trace.member_log import read_member_log
from precedes.trace.members import join
from precedes.viewer import html
from tests.support import commands, edited, warm
from tests.support.groups import listeners
from tests.support.places import ROOT
from tests.support.processes import printed
from tests.support.signals import enable_interrupts
from tests.support.unpacked import traces_of

pytestmark = pytest.mark.usefixtures("live")

KILLED_EARLY = 35  # a seed that draws one kill, at once
COMMON = {"seconds": 1.2, "rate": 300.0, "evict_after_s": 2.0}
# Schedules over protocols and sizes of groups; `make swarm` runs 200, over all protocols.
SCHEDULES = [(seed, warm.LIVE[seed % 4], 4 + seed % 3) for seed in range(1, 7)]


def clusters(given, limit_s):
    """Run clusters in a process of their own; what each came to."""
    script = ROOT / "tests/support/run_clusters.py"
    printed_text = printed(script, json.dumps(given), timeout=limit_s)
    return [json.loads(line) for line in printed_text.splitlines()]


def judge(found):
    """Assert the guarantees that hold after any schedule of faults."""
    print(f"seed {found['faults']}: {found['ended']}")
    assert found["verdict"] == "held", found["witnesses"]
    assert found["lost"] == found["duplicates"] == found["phantom"] == 0
    assert found["hung"] == found["unexpected"] == []
    assert found["deliveries"] > 0
    if found["guarantee"] == "causal":
        assert found["violations"] == 0
        assert found["pending_max"] <= found["pending_bound"]


def test_schedules_of_faults():
    """All protocols at the same time: most of it is waiting."""
    given = [
        [
            {**COMMON, "protocol": protocol, "members": members, "faults": seed}
            for seed, protocol, members in SCHEDULES[first::2]
        ]
        for first in range(2)
    ]
    with ThreadPoolExecutor(len(given)) as pool:
        for found in pool.map(clusters, given, [240.0] * len(given)):
            assert len(found) == len(SCHEDULES) / 2
            for one in found:
                judge(one)


@pytest.mark.gate
def test_members_go_on_compiled_each_on_its_own(tmp_path, monkeypatch, request):
    """The parent has no thread when it forks; members load the step in threads of theirs."""
    monkeypatch.delenv("PRECEDES_TIER", raising=False)
    monkeypatch.setenv("WARM_CACHE", str(compiled.cache_root()))
    request.getfixturevalue("empty_cache")
    given = {"members": 3, "seconds": 0.5, "rate": 100.0}
    script = ROOT / "tests/support/climbing_cluster.py"
    found = json.loads(printed(script, tmp_path, json.dumps(given)))
    judge(found)
    assert found["threads"] == [1, 1, 1]
    assert found["tier"] == "mixed"
    for member in range(3):
        log = (tmp_path / f"member-{member:04d}.log").read_text()
        assert f"member {member} now runs compiled" in log


@pytest.mark.swarm
@pytest.mark.parametrize("block", range(20))
def test_two_hundred_schedules_of_faults(block):
    protocols = ("vector", "vcube", "bundled", "hashed", "probabilistic")
    given = [
        {**COMMON, "protocol": protocols[seed % 5], "members": 4 + seed % 4, "faults": seed}
        for seed in range(1000 + 10 * block, 1010 + 10 * block)
    ]
    for found in clusters(given, limit_s=900):
        judge(found)


def test_members_that_are_late_are_no_violation(tmp_path):
    """Nothing is wrong in their logs; a member that fails by itself is a violation."""
    stuck = (
        "receive",
        "clock[source] > need[source]",
        "clock[source] > need[source] or need[source] > 2",
    )
    failing = (
        "broadcast",
        "clock[host.source_of(slot)] += 1",
        "clock[host.source_of(slot) + 99 * (host.sequence_of(slot) > 3)] += 1",
    )
    common = {"members": 2, "seconds": 0.2, "rate": 100.0, "evict_after_s": 0.4, "grace_s": 0.1}
    given = [
        {
            **common,
            "tier": "interpreted",
            "protocol": edited.protocol(tmp_path, "vector", edit, rename=name),
        }
        for name, edit in (("stuck", stuck), ("failing", failing))
    ]
    late, failed = clusters(given, limit_s=60)
    assert (late["verdict"], late["violations"], late["lost"]) == ("late", 0, 0)
    assert late["unexpected"] == [0, 1]
    assert Exit.of(late["verdict"]) == Exit.UNKNOWN
    assert cluster_text(late).startswith("late: ")
    assert (failed["verdict"], failed["hung"]) == ("violated", [])


def test_schedules_come_from_their_seed():
    settings = {"members": 8, "seconds": 5.0, "patience_s": 2.0}
    assert draw(7, **settings) == draw(7, **settings)
    kinds = set()
    for seed in range(50):
        faults = draw(seed, **settings)
        assert faults != draw(seed + 1, **settings)
        gone = {f.members for f in faults if f.kind == "kill" or f.for_s > 1.0}
        assert len(gone) <= 3, "a majority stays"
        kinds |= {fault.kind for fault in faults}
        gentle = draw(seed, crashes=False, **settings)
        assert not any(f.kind == "kill" or f.for_s > 1.0 for f in gentle)
    assert kinds == {"kill", "pause", "reset", "partition"}


def test_nobody_is_killed_where_the_protocol_survives_no_crash():
    killed = {
        protocol: [
            fault
            for seed in range(10)
            for fault in run.Cluster(protocol=protocol, faults=seed).schedule()
            if fault.kind == "kill"
        ]
        for protocol in ("vector", "hashed", "bundled", "probabilistic", "dcs")
    }
    assert all(killed[protocol] for protocol in ("vector", "hashed", "bundled"))
    assert killed["probabilistic"] == killed["dcs"] == []


@pytest.fixture(scope="module")
def killed_early(tmp_path_factory):
    """Result and logs of a group of which a member was killed at once."""
    folder = tmp_path_factory.mktemp("killed") / "logs"
    line = ["cluster", "-n", "4", "--seconds", "0.1", "--evict-after", "1", "--json"]
    line += ["--faults", str(KILLED_EARLY), "--trace", str(folder)]
    done = commands.run(*line)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), folder


def test_faults_wait_until_all_members_are_ready(killed_early):
    """Some 10 ms after the start a member has not even opened its log."""
    assert draw(KILLED_EARLY, members=4, seconds=0.1, patience_s=1.0)[0].at_s < 0.02
    found, folder = killed_early
    assert "killed" in found["ended"].values()
    assert found["disturbed_s"] > 0
    for path in folder.glob("*.events"):
        assert read_member_log(path).about.get("began", True), "it was killed too early"


def test_survivors_mark_that_a_killed_member_is_out_of_their_view(killed_early):
    found, folder = killed_early
    (killed,) = (int(who) for who, how in found["ended"].items() if how == "killed")
    (trace,) = traces_of(html(folder))
    marks = trace.head["marks"]
    crashes = [mark for mark in marks if mark["kind"] == "crash"]
    # A crash is drawn after the last row of its member, which may have been killed before one.
    has_rows = read_member_log(folder / f"member-{killed:04d}.events").kind.size > 0
    assert [crash["lane"] for crash in crashes] == [killed] * has_rows
    reported = [mark for mark in marks if mark["kind"] == "view"]
    assert {mark["lane"] for mark in reported} == set(range(4)) - {killed}
    assert len(reported) == 3
    for mark in reported:
        assert mark["text"] == f"{killed} is out of the view (excluded)"
        assert mark["time_us"] <= trace.head["end_us"]
        assert all(crash["time_us"] < mark["time_us"] for crash in crashes)


def test_a_member_that_never_began_has_crashed(logs, tmp_path):
    target = shutil.copytree(logs[0], tmp_path / "copy")
    (target / "member-0002.events").unlink()
    (target / "member-0005.events").write_bytes(b"")
    addresses = tuple(f"127.0.0.1:{port}" for port in range(7000, 7008))
    configs = [
        Config(member=who, addresses=addresses, name="cluster", protocol="vcube")
        for who in range(8)
    ]
    run._log_for_absent(configs, target)
    assert read_members(target).crashed.tolist() == [2, 5]
    assert read_member_log(target / "member-0002.events").kind.size == 0


def test_files_of_others_are_left_alone(tmp_path):
    for name in ("member-0000.json", "package.json", "app.log"):
        (tmp_path / name).write_text("here")
    with pytest.raises(UserError, match="holds other files"):
        run.run(run.Cluster(members=2), directory=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_latency_with_and_without_the_time_of_a_missing_member():
    killed = Outage(member=2, since_us=1_000_000)
    paused = Outage(member=1, since_us=8_000_000, until_us=8_100_000)
    cut = Outage(member=None, since_us=8_050_000, until_us=8_200_000)
    seen = [{"2": 5_900_000}, {"2": 6_000_000}]
    missing = disturbances([paused, killed, cut], seen, end_us=10_000_000)
    assert missing == [(1_000_000, 6_000_000), (8_000_000, 8_200_000)]
    quick = [(at_us, 700) for at_us in (0, 500_000, 6_000_001, 7_999_000, 8_200_001)]
    held_back = [(990_000, 5_020_000), (1_000_000, 900), (3_000_000, 3_000_000), (8_100_000, 9)]
    found = latencies([*quick, *held_back, (7_999_500, 500)], missing)
    assert found["p50_undisturbed_ms"] == found["p99_undisturbed_ms"] == 0.7
    assert found["p99_ms"] == 5020
    assert found["disturbed_s"] == pytest.approx(5.2)
    assert latencies(held_back, missing)["p50_undisturbed_ms"] is None
    gone_for_good = disturbances([killed], [], end_us=10_000_000)
    assert gone_for_good == [(1_000_000, 10_000_000)], "nobody has excluded it"


@pytest.fixture(scope="module")
def logs(tmp_path_factory, live):
    """The logs of a saturated group of eight, with TLS."""
    directory = tmp_path_factory.mktemp("cluster") / "logs"
    line = ["cluster", "-n", "8", "--seconds", "1.5", "--protocol", "vcube", "--secure", "--json"]
    done = commands.run(*line, "--trace", directory)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    return directory, json.loads(done.stdout)


def test_a_saturated_cluster_holds_and_says_what_it_did(logs):
    directory, found = logs
    assert found["verdict"] == "held"
    assert found["links_max"] == 7, "one to each other member"
    assert 0 < found["pending_max"] <= found["pending_bound"]
    wanted = {"deliveries_per_s", "deliveries_per_core_s", "p50_ms", "p99_ms", "faults"}
    assert wanted <= set(found)
    report = audit(load(directory)[0])
    assert (report.verdict, report.deliveries) == ("held", found["deliveries"])


def test_logs_that_cannot_be_judged_are_refused(logs, tmp_path):
    target = shutil.copytree(logs[0], tmp_path / "copy")
    (target / "member-0002.events").unlink()
    with pytest.raises(UserError, match="lacks the log of member 2"):
        read_members(target)
    (target / "member-0002.events").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="header is damaged"):
        read_members(target)


def test_a_killed_member_may_leave_half_a_row(logs, tmp_path):
    target = shutil.copytree(logs[0], tmp_path / "copy")
    path = target / "member-0000.events"
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03")
    assert audit(read_members(target)).verdict == "held"


def test_logs_join_into_one_trace(logs, tmp_path):
    path = tmp_path / "joined.parquet"
    join(logs[0], path)
    report, same = audit(load(path)[0]), audit(load(logs[0])[0])
    assert (report.verdict, report.deliveries) == (same.verdict, same.deliveries)
    written = read_metadata(path)
    assert {"version": written["version"], "sources": written["code_version"]} == made_by()
    for member in sorted(logs[0].glob("*.events")):
        assert read_member_log(member).about["code_version"] == made_by()["sources"]


@contextlib.contextmanager
def nodes(*given):
    """Processes of ``precedes node``, one for each list of options; their input stays open."""
    socks = listeners(2)
    addresses = [f"--address=127.0.0.1:{sock.getsockname()[1]}" for sock in socks]
    for sock in socks:
        sock.close()
    processes = [
        subprocess.Popen(
            commands.command("node", f"--member={i}", *addresses, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            preexec_fn=enable_interrupts,
        )
        for i, options in enumerate(given)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def line_with(text, stream):
    """The first line of a process that has this in it, and those before."""
    read = []
    for line in stream:
        read.append(line)
        if text in line:
            return read
    raise AssertionError(f"no line with {text!r}: {read}")


def test_a_node_broadcasts_lines_and_prints_what_comes():
    with nodes([], ["--json"]) as (one, two):
        for process, text in ((one, "hello\r\n\nlast"), (two, "answer\n")):
            process.stdin.write(text)
            process.stdin.close()
            process.stdin = None
        outputs = [process.communicate(timeout=90) for process in (one, two)]
    assert outputs[0][0] == "1: answer\n", outputs
    opening, *found = [json.loads(line) for line in outputs[1][0].splitlines()]
    assert opening.pop("precedes") == made_by()
    names = ["0", "1"]
    assert opening == {"member": 1, "members": 2, "names": names, "protocol": "vector"}
    assert [message["payload"] for message in found] == ["hello", "", "last"]
    assert found[0] == {"sender": 0, "sequence": 1, "payload": "hello"}


def test_a_node_ends_by_ctrl_c_although_its_input_is_open():
    with nodes([], []) as (one, two):
        line_with("is ready", two.stderr)
        one.stdin.write("hello\n")
        one.stdin.flush()
        assert two.stdout.readline() == "0: hello\n"
        two.send_signal(signal.SIGINT)
        assert two.wait(timeout=60) == 130
        assert two.stderr.read() == "precedes: interrupted; member 1 has left the group\n"


def test_a_node_that_waits_says_for_whom_and_ends_by_a_signal():
    with nodes([]) as (one,):
        said = line_with("waiting for member 1 at 127.0.0.1:", one.stderr)
        assert len(said) == 1
        one.send_signal(signal.SIGTERM)
        assert one.wait(timeout=60) == 130
        assert one.stderr.read() == "precedes: interrupted; member 0 has left the group\n"


def test_log_lines_of_one_key_are_rate_limited():
    limiter, logged = RateLimiter(), []
    for tenth in range(36_000):
        now_s = 1000.0 + tenth / 10
        if limiter.allows("wrong key", now_s=now_s):
            logged.append(now_s - 1000.0)
    assert logged[:5] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert len(logged) < 70, "one a minute"
    assert limiter.allows("another", now_s=now_s)
    assert limiter.allows("wrong key", now_s=now_s + 1000.0)
    assert limiter.allows("wrong key", now_s=now_s + 1001.0), "as new"
