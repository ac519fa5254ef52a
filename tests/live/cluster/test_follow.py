"""A live group that is audited while it runs."""

import json

import pytest

from precedes.audit import audit
from precedes.cli.audit import as_json
from precedes.live.cluster.run import Cluster, run
from precedes.trace import read_members
from tests.support.edited import protocol

pytestmark = pytest.mark.usefixtures("live")

# Only the sender's own entry of the clock is compared.
BUG = (
    "receive",
    "clocks.covers(clock, need)",
    "clock[source] >= need[source]",
    "source = host.source_of(...)",
)


def followed(folder, **cluster):
    """Result of a cluster, and each standing before it."""
    reported = folder / "reported"

    def watch(standing):  # in another process
        with reported.open("a") as file:
            file.write(json.dumps(as_json(standing)) + "\n")

    found = run(Cluster(**cluster), directory=folder / "logs", watch=watch)
    return found, [json.loads(line) for line in reported.read_text().splitlines()]


def check(folder, found, standings):
    """Nothing is taken back, and the end is that of the audit of the whole."""
    for name in ("violations", "duplicates", "rows_read", "rows_judged"):
        counts = [standing[name] for standing in standings]
        assert counts == sorted(counts), name
    last = standings[-1]
    report = audit(read_members(folder / "logs"))
    assert last["final"]
    for name in ("verdict", "deliveries", "violations", "violating_messages", "lost"):
        assert last[name] == getattr(report, name), name
    assert [w["sentence"] for w in last["witnesses"]] == found["witnesses"]
    assert found["violations"] == report.violations


@pytest.mark.parametrize("faults", [None, 35])  # a seed that draws one kill, at once
def test_a_group_that_is_followed(tmp_path, faults):
    found, standings = followed(
        tmp_path, members=4, seconds=1.0, rate=300.0, evict_after_s=2.0, faults=faults
    )
    assert found["verdict"] == "held"
    assert len(standings) > 2
    assert not any(standing["violations"] for standing in standings)
    check(tmp_path, found, standings)


@pytest.mark.swarm
def test_a_planted_bug_is_found_while_the_group_runs(tmp_path):
    bad = protocol(tmp_path, "vector", BUG)
    found, standings = followed(tmp_path, protocol=bad, members=8, seconds=4.0, rate=400.0)
    assert found["verdict"] == "violated"
    first = next(standing for standing in standings if standing["violations"])
    assert not first["final"]
    assert first["rows_read"] < standings[-1]["rows_read"] / 2
    assert "precedes" in first["witnesses"][0]["sentence"]
    check(tmp_path, found, standings)
