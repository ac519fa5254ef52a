"""However a run is cut, read and started from, the report is the same."""

import random
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.audit import audit
from precedes.audit.order import find_order
from precedes.audit.pasts import find_pasts
from precedes.audit.stages import Runner
from precedes.audit.table import number_places, prefixes_by_place, prune
from precedes.model import EventKind
from precedes.trace import read_trace
from precedes.trace.reader import trace_rows
from tests.support import executions
from tests.support.audits import ExecutionRows, write_rows, write_trace
from tests.support.executions import BROADCAST, DELIVER, Execution

SEEDS = st.integers(0, 2**32 - 1)


def anything(seed):
    """An execution of any kind: lossy, contradictory, with members and phantoms."""
    rng = random.Random(seed)
    nodes = rng.randrange(1, 7)
    if rng.random() < 0.4:
        rows = rng.randrange(60)
        execution = executions.scramble(seed, nodes=nodes, messages=rng.randrange(15), rows=rows)
    else:
        execution = executions.run(
            seed,
            nodes=nodes,
            messages=rng.randrange(25),
            order=rng.choice(["causal", "fifo", "wild"]),
            loss=rng.choice([0.0, 0.3]),
            own=rng.choice(["none", "now", "later"]),
            drain=rng.random() < 0.7,
        )
    if rng.random() < 0.2:
        # The next of its source, had there been one.
        source = rng.randrange(nodes)
        number = 1 + sum(m[0] == source for m in execution.broadcasts())
        log = rng.choice(execution.logs)
        log.insert(rng.randrange(len(log) + 1), (DELIVER, (source, number)))
    return executions.with_members(execution, rng) if rng.random() < 0.3 else execution


def combined(*parts):
    """Executions that never hear of each other, as one."""
    logs, crashed, joins, departed = [], [], [], []
    for part in parts:
        base = len(logs)

        def moved(m, base=base):
            return None if m is None else (m[0] + base, m[1])

        logs += [[(kind, moved(m)) for kind, m in log] for log in part.logs]
        crashed += [node + base for node in part.crashed]
        joins += [(node + base, row, moved(m)) for node, row, m in part.joins]
        departed += [node + base for node in part.departed]
    return Execution(logs, parts[0].complete, crashed, joins, departed)


@given(SEEDS, st.sampled_from([1, 2, 3, 7]), st.sampled_from([1, 2, 5]))
@settings(max_examples=60)
def test_the_plan_does_not_matter(seed, ranges, chunk_rows):
    history = anything(seed).history()
    expected = audit(history, witnesses=100)
    references = list(range(history.nodes))[::-1][:ranges]
    options = ({"chunk_rows": chunk_rows}, {"references": references}, {"references": []})
    for runner in (Runner(**option) for option in options):
        assert audit(history, witnesses=100, ranges=ranges, runner=runner) == expected


@pytest.mark.parametrize("group_rows", [3, 1_000_000])
def test_a_file_says_what_its_history_says(tmp_path, group_rows):
    """Read by row groups of one node, of several, and of many for one node."""
    for seed in range(25):
        path = write_trace(tmp_path / "t.parquet", anything(seed), group_rows=group_rows)
        (rows,) = trace_rows(str(path))
        expected = [audit(history, witnesses=100) for history in read_trace(path)]
        assert [audit(rows, witnesses=100, ranges=1 + seed % 3)] == expected, seed
        assert audit(path, witnesses=100) == expected, seed


def bridged(seed, other):
    """Two groups in which nodes deliver a few messages of the other."""
    rng = random.Random(seed)
    execution = combined(anything(seed), anything(other))
    known = sorted(execution.broadcasts())
    for _ in range(rng.randrange(4) if known else 0):
        log = rng.choice(execution.logs)
        log.insert(rng.randrange(len(log) + 1), (DELIVER, rng.choice(known)))
    execution.joins = []
    return execution


@given(SEEDS, SEEDS)
@settings(max_examples=150)
def test_groups_with_a_bridge_agree_with_the_definitions(seed, other):
    execution = bridged(seed, other)
    expected = executions.judge(execution)
    report = audit(ExecutionRows(execution))
    for name in ("violations", "violating_messages", "duplicates", "cycles", "unjudged", "lost"):
        assert getattr(report, name) == expected[name], name


def kept_a_message(execution):
    """Generators that a message keeps, on average."""
    rows = execution.history()
    order = find_order(rows)
    pasts = [find_pasts(rows, 0, rows.nodes, order=order, bound=rows.counts)]
    places = number_places(order, pasts[0].counts)
    pruned = prune(pasts[0], places=places, prefixes=prefixes_by_place(places, pasts))
    return pruned.generators.size / places.place.size


def test_lists_are_as_short_next_to_another_group():
    one = executions.run(1, nodes=8, messages=150, order="causal")
    two = executions.run(2, nodes=8, messages=150, order="causal")
    assert kept_a_message(combined(one, two)) == pytest.approx(
        (kept_a_message(one) + kept_a_message(two)) / 2, rel=0.1
    )


def test_thousands_of_silent_nodes():
    """They lose everything in a complete run, and change nothing else."""
    execution = executions.run(5, nodes=4, messages=30, order="wild")
    before = audit(execution.history(), witnesses=0)
    execution.logs += [[] for _ in range(10_000)]
    report = audit(execution.history(), witnesses=0, ranges=7)
    assert (before.violations, before.lost) == (report.violations, 0)
    assert report.lost == 30 * 10_000
    execution.complete = False
    silent = audit(execution.history(), witnesses=0)
    assert (silent.verdict, silent.lost) == (before.verdict, 0)


def test_a_phantom_from_afar_takes_no_memory(tmp_path):
    """A seq that nobody reached says nothing about how many messages there are."""
    far = [(0, 2**31 - 1), (1, 2**31 - 1), (0, 0), (2**31 - 1, 1)]
    rows = [(0, EventKind.BROADCAST, 0, 1), (1, EventKind.DELIVER, 0, 1)]
    rows += [(1, EventKind.DELIVER, *m) for m in far]
    path = write_rows(tmp_path / "t.parquet", rows, nodes=2)
    (report,) = audit(path)
    assert (report.phantom, report.deliveries, report.messages) == (4, 5, 5)
    assert [(w.message, w.message_name) for w in report.witnesses] == [
        (1 + number, f"{source}:{seq}") for number, (source, seq) in enumerate(sorted(far))
    ]
    assert [report] == [audit(history) for history in read_trace(path)]


def steps_of(work):
    """Number of lines that an interpreted audit executes: independent of the machine's speed."""
    package = str(Path(sys.modules["precedes.audit"].__file__).parent)
    steps = 0

    def count(frame, event, argument):
        nonlocal steps
        steps += event == "line"
        return count if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def chain(nodes, *, closed=False):
    """Each node delivers the message of the one before it, then broadcasts its own."""
    logs = [[(DELIVER, (node - 1, 1)), (BROADCAST, (node, 1))] for node in range(nodes)]
    logs[0] = [(DELIVER, (nodes - 1, 1)), *logs[0][1:]] if closed else logs[0][1:]
    return Execution(logs, False, [], [], [])


@pytest.mark.parametrize("closed", [False, True])
def test_a_node_costs_what_it_has(monkeypatch, closed):
    """Twice the nodes, each with two rows, take twice the steps: none looks at all the others."""
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    few, many = (chain(nodes, closed=closed).history() for nodes in (60, 120))
    assert audit(many).violations == (0 if closed else 118)
    assert audit(many).cycles == (120 if closed else 0)
    assert steps_of(lambda: audit(many)) < 2.2 * steps_of(lambda: audit(few))


def test_a_row_group_is_read_once_for_small_runs_and_near_nodes(tmp_path, monkeypatch):
    """Nodes on the path of a witness that share a row group do not read it each."""
    path = write_trace(tmp_path / "t.parquet", chain(60, closed=True))
    read = pq.ParquetFile.read_row_group
    groups = []

    def counted(file, group, **options):
        groups.append(group)
        return read(file, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    (report,) = audit(path)
    assert report.cycles == 60
    assert len(groups) <= 3  # the index, and once more for the column that the first phase checks
