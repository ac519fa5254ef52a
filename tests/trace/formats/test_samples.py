"""Real logs of other systems: what comes out of them is known."""

import pytest

from precedes.audit import audit
from precedes.trace import Dialect, load
from tests.support.places import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real logs are not here")

TITLED = r"^=== (?<trace>.*) ===$"
TSVIZ = r"(?<timestamp>(\d*)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
AKKA = (
    r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://Broadcast/user/(?<host>\w+)\] "
    r"(?<clock>.*\}) "
)
WITH_KINDS = (
    AKKA + r"(?<event>(?<kind>Initiating RBBroadcast|RBDeliver of message|Crashing)?[ (]*"
    r"(?<message>DataMessage\(\d+,\w+\))?.*)"
)
KINDS = {
    "Initiating RBBroadcast": "broadcast",
    "RBDeliver of message": "deliver",
    "Crashing": "crash",
}
STATE = (
    r'^State \d+: <(?<event>\w+) .*>\n/\\ Host = (?<host>\w+)\n/\\ Clock = "(?<clock>\{.*\})"'
    r"(\n/\\ .*)*"
)

# Messages, deliveries, lines skipped, of each run.
SAMPLES = [
    ("shiviz/chord.log", {}, [(1235, 6632, 0)]),
    ("shiviz/simpledb.log", {}, [(509, 1904, 0)]),
    ("shiviz/voldemort.log", {}, [(864, 162, 0)]),
    ("shiviz/voldemort-simple-threadnames.log", {}, [(863, 162, 1)]),
    ("shiviz/tsviz_fslock_24t_4sp.log", {"parser": TSVIZ}, [(2001, 36057, 0)]),
    ("shiviz/tsviz_fslock_24t_4sp.log", {}, [(2001, 36057, 0)]),
    ("shiviz/tsviz_shared_var_4_threads.log", {"parser": TSVIZ}, [(5000, 14197, 0)]),
    ("shiviz/facebook.log", {}, [(47, 124, 0)]),
    ("shiviz/facebook-multiple.log", {"delimiter": TITLED}, [(47, 124, 0), (41, 106, 0)]),
    ("shiviz/multiple-comparison.log", {"delimiter": TITLED}, [(8, 7, 0)] * 5),
    ("shiviz/reliable-broadcast.log", {"parser": AKKA + "(?<event>.*)"}, [(116, 192, 1)]),
    ("shiviz/reliable-broadcast.log", {"parser": WITH_KINDS, "kinds": KINDS}, [(3, 6, 1)]),
    ("shiviz/simple-reliable-broadcast.log", {"parser": WITH_KINDS, "kinds": KINDS}, [(1, 2, 0)]),
    (
        "shiviz/ewd998.log",
        {"parser": STATE, "delimiter": TITLED},
        [(248, 832, 62), (665, 3556, 46), (77, 127, 51)],
    ),
    (
        "shiviz/ewd998.log",
        {"parser": STATE + "|^.+$", "delimiter": TITLED},
        [(248, 832, 0), (665, 3556, 0), (77, 127, 0)],
    ),
    ("editing-traces/clownschool.json.gz", {}, [(23136, 42427, 0)]),
    ("editing-traces/friendsforever.json.gz", {}, [(26078, 25457, 0)]),
    ("automerge-perf/paper.json.gz", {}, [(259779, 347790, 0)]),
]


@pytest.mark.parametrize(("name", "said", "expected"), SAMPLES)
def test_real_logs(name, said, expected):
    reports = [audit(history) for history in load(DATA / name, dialect=Dialect(**said))]
    assert [(r.messages, r.deliveries, r.skipped) for r in reports] == expected
    for report in reports:
        assert report.verdict == ("unknown" if report.skipped else "held")
        assert report.phantom == report.duplicates == report.violations == 0


def test_the_crash_that_a_text_tells_of():
    dialect = Dialect(parser=WITH_KINDS, kinds=KINDS)
    (history,) = load(DATA / "shiviz/reliable-broadcast.log", dialect=dialect)
    assert [history.node_label(node) for node in history.crashed] == ["node1"]


def test_a_clock_that_is_not_closed_is_found(tmp_path):
    """One entry lowered in one clock, where what it knows by others is above it."""
    lines = (DATA / "shiviz/simpledb.log").read_text().splitlines(keepends=True)
    plain = tmp_path / "plain.log"
    plain.write_text("".join(lines))
    assert audit(load(plain)[0]).verdict == "held"
    spoilt = 0
    for at, line in enumerate(lines):
        if line.startswith("24469 ") and '"24464":' in line:
            host, _, clock = line.partition(" ")
            number = int(clock.partition('"24464":')[2].partition(",")[0].partition("}")[0])
            lowered = clock.replace(f'"24464":{number}', '"24464":1')
            lines[at] = f"{host} {lowered}"
            spoilt += number > 1
    assert spoilt
    plain.write_text("".join(lines))
    report = audit(load(plain)[0])
    assert report.verdict == "violated"
    assert report.violations
