"""The cost of following a log: `python bench/follow.py [--quick] [--json]`.

- Time from a delivery to the report of its violation, on a live group of 8 whose `vector` has a
  planted bug (only the sender's own entry of the clock is compared): the first violations of each
  run.
- CPU of the audit of a growing log, fed with the rows of a simulated run in the order of time,
  compared with the batch audit of the same rows in memory; and the size of its state.
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import harness

SIZES = {"8 nodes": (8, 250_000), "64 nodes": (64, 31_250), "512 nodes": (512, 4_000)}
FEED_ROWS = 100_000
BUG = ("elif clocks.covers(clock, need):", "elif clock[source] >= need[source]:")


def report_delays_ms(directory):
    """Milliseconds between deliveries out of order and their reports, first ones first."""
    from precedes.live.cluster.run import Cluster, run
    from precedes.trace.member_log import read_member_log
    from tests.support.edited import protocol

    log, found = directory / "reported", directory / "logs"
    bad = protocol(directory, "vector", BUG)

    def watch(standing):
        now_ns = time.time_ns()
        with log.open("a") as file:
            for witness in standing.report.witnesses:
                file.write(f"{now_ns} {witness.node} {witness.message_name}\n")

    cluster = Cluster(protocol=bad, seconds=4.0, rate=400.0, tier="compiled")
    run(cluster, directory=found, watch=watch)
    delays, seen = [], set()
    for line in log.read_text().splitlines():
        now_ns, node, message = line.split()
        if (node, message) not in seen and len(seen) < 5:
            seen.add((node, message))
            rows = read_member_log(found / f"member-{int(node):04d}.events")
            source, sequence = map(int, message.split(":"))
            at = (rows.kind == 3) & (rows.source == source) & (rows.sequence == sequence)
            delivered_ns = rows.about["started_unix_ns"] + int(rows.time_ns[at][0])
            delays.append((int(now_ns) - delivered_ns) / 1e6)
    return delays


def child(what):
    """One measurement in a process of its own."""
    kind, _, name = what.partition(":")
    with tempfile.TemporaryDirectory() as directory:
        if kind == "live":
            return {"report_ms": report_delays_ms(Path(directory))}
        return cost(Path(directory), *SIZES[name], quick=kind == "quick")


def cost(directory, nodes, messages, *, quick):
    """CPU of both audits of one simulated run."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from precedes import Scenario, simulate
    from precedes.audit import audit
    from precedes.audit.growing import Auditor, prepare
    from precedes.trace import load
    from precedes.trace.tail import Rows

    trace = directory / "run.parquet"
    messages = messages // 20 if quick else messages
    simulate(Scenario(protocol="vector", nodes=nodes, messages=messages), trace=trace)
    (history,) = load(trace)
    prepare()
    audit(history)
    began_s = time.process_time()
    report = audit(history)
    batch_s = time.process_time() - began_s
    source = history.message_source[history.message].astype(np.int64)
    message = (source << 32) | history.message_sequence[history.message]
    node = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(history.offsets))
    table = pq.read_table(trace, columns=["time_us", "kind"])
    judged = pc.is_in(table.column("kind").cast("string"), pa.array(["broadcast", "deliver"]))
    time_us = table.filter(judged).column("time_us").to_numpy()
    order = np.argsort(time_us, kind="stable")
    feeds = [order[at : at + FEED_ROWS] for at in range(0, order.size, FEED_ROWS)]
    feeds = [Rows(node[at], history.kind[at], message[at]) for at in feeds]
    auditor = Auditor(nodes=nodes, is_closed=True)
    began_s = time.process_time()
    for rows in feeds:
        auditor.feed(rows)
        auditor.standing()
    follow_s = time.process_time() - began_s
    auditor.end(complete=history.complete)
    standing = auditor.standing()
    assert (standing.report.verdict, standing.report.deliveries) == ("held", report.deliveries)
    return {
        "rows": int(order.size),
        "batch_s": batch_s,
        "follow_s": follow_s,
        "ns_per_row": 1e9 * follow_s / order.size,
        "state_mb": standing.state_bytes / 2**20,
    }


def measure(*, quick):
    """All rows of the report."""
    repeats = 1 if quick else 3
    scale = "quick" if quick else "full"
    rows = {name: lambda name=name: harness.alone(__file__, f"{scale}:{name}") for name in SIZES}
    rows["live"] = lambda: harness.alone(__file__, "live:")
    found = harness.interleaved(rows, repeats)
    delays_ms = sorted(ms for one in found.pop("live") for ms in one["report_ms"])
    return {
        "report_ms": delays_ms,
        "sizes": {
            name: {
                **min(runs, key=lambda one: one["follow_s"]),
                "ratio": sorted(one["follow_s"] / one["batch_s"] for one in runs)[len(runs) // 2],
            }
            for name, runs in found.items()
        },
    }


def show(report):
    """The report for people."""
    delays_ms = report["report_ms"]
    print(f"a violation is reported after (ms): {', '.join(f'{ms:.0f}' for ms in delays_ms)}")
    for name, row in report["sizes"].items():
        print(
            f"{name:>10}: {row['rows']:>9,} rows, {row['ns_per_row']:.0f} ns a row, "
            f"{row['ratio']:.2f} of the batch audit's CPU, state {row['state_mb']:.1f} MB"
        )


def ratios(report):
    """Values for the history."""
    return {f"growing, {name}": row["ratio"] for name, row in report["sizes"].items()}


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, child=child)
