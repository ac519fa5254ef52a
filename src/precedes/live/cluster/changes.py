"""Run a group whose processes are replaced while it serves load, and audit its logs."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from precedes import registry
from precedes.audit import audit, to_json
from precedes.live.cluster import replica
from precedes.live.cluster.churn import CHANGES_MIN, Supervisor, draw_changes, quantile_ms
from precedes.live.cluster.faults import latencies
from precedes.live.cluster.process import Watch, Watching
from precedes.live.cluster.run import (
    GROUP,
    LATE,
    START_S,
    Cluster,
    Phases,
    load_step,
    log_if_absent,
    promised,
    tier_of,
)
from precedes.live.cluster.zygote import Zygote
from precedes.live.config import Config
from precedes.live.net.security import Security

# Time for which a member that leaves waits for the others, which do not end.
LINGER_S: Final = 0.5


def run_changes(
    cluster: Cluster, directory: Path, keys: Path | None, watch: Watch | None, progress: Phases
) -> dict[str, Any]:
    """Run it; the result is as that of ``run``."""
    names = [str(number) for number in range(cluster.members)]

    def configure(name: str, address: str, seeds: tuple[str, ...]) -> Config:
        return Config(
            member=name,
            founders=tuple(names),
            address=address,
            seeds=seeds,
            name=GROUP,
            protocol=cluster.protocol,
            parameters=cluster.parameters,
            window=cluster.window,
            payload_max_bytes=max(cluster.payload_bytes, 1024),
            evict_after_s=cluster.evict_after_s,
            test_every_s=min(0.5, cluster.evict_after_s / 4),
            linger_s=LINGER_S,
            start_s=START_S + 4 * cluster.evict_after_s,
            trace=str(directory),
            tier=cluster.tier,
            security=None if keys is None else Security.in_directory(keys, member=name),
        )

    # Addresses do not matter for the step.
    config = configure(names[0], "127.0.0.1:1", ())
    load_step(config, cluster.rate)
    gc.collect()
    gc.freeze()
    watching = None if watch is None else Watching(directory, watch, [])
    began_s = time.monotonic()
    reports, set_reports = os.pipe()
    zygote = Zygote(replica.run)
    supervisor = Supervisor(
        configure=configure,
        names=names,
        directory=directory,
        zygote=zygote,
        reports=(reports, set_reports),
        load={
            "seconds": float("inf"),
            "rate": None if cluster.rate is None else cluster.rate / cluster.members,
            "payload_bytes": cluster.payload_bytes,
        },
        limit_s=START_S + 4 * cluster.evict_after_s + cluster.grace_s,
        progress=progress,
    )
    changes = None
    if cluster.churn is not None:
        count = max(CHANGES_MIN, round(cluster.seconds))
        changes = draw_changes(cluster.churn, count=count, patience_s=cluster.evict_after_s)
    try:
        asyncio.run(
            supervisor.supervise(changes, seconds=cluster.seconds, relayed=changes is not None)
        )
    finally:
        zygote.close()
        supervisor.close()
        os.close(reports)
        os.close(set_reports)
        if watching is not None and sys.exc_info()[0] is not None:
            watching.abandon()
    took_s = time.monotonic() - began_s
    for member in range(supervisor.members_seen):
        log_if_absent(config, directory, member=member)
    progress("audit", 0.0, None)
    if watching is not None:
        watching.finish()
    return _sum_up(cluster, directory, supervisor, took_s=took_s)


def _sum_up(
    cluster: Cluster, directory: Path, supervisor: Supervisor, *, took_s: float
) -> dict[str, Any]:
    """The results of all processes and of the audit."""
    results = {supervisor.label(one): supervisor.result(one) for one in supervisor.processes}
    found = [result for result in results.values() if "broadcasts" in result]
    last = [result for result in found if result["ended"] == "all"]
    states = {result["state"] for result in last}
    report = to_json(audit(directory))
    guarantee = registry.load(cluster.protocol).guarantee
    verdict = promised(report, guarantee)
    if report["view_findings"] or len(states) > 1:
        verdict = "violated"
    unexpected = [supervisor.label(one) for one in supervisor.unexplained()]
    hung = [supervisor.label(one) for one in supervisor.running]
    if verdict == "held" and (hung or unexpected or supervisor.problems):
        is_late = all(results[name]["ended"].startswith(LATE) for name in unexpected)
        verdict = "late" if is_late else "violated"
    cpu_s = sum(result["cpu_s"] for result in found)
    # Processes run at different times: deliveries per second are those of each, added up.
    counted = sum(result["deliveries_measured"] for result in found)
    samples = [sample for result in found for sample in result["latency_us"]]
    changes_us = [change_us for result in found for change_us in result["view_change_us"]]
    current = [one for one in supervisor.current.values() if one.member >= 0]
    return {
        "verdict": verdict,
        "protocol": cluster.protocol,
        "members": cluster.members,
        "tier": tier_of(found),
        "guarantee": guarantee,
        "broadcasts": sum(result["broadcasts"] for result in found),
        "deliveries": report["deliveries"],
        "deliveries_per_s": counted / supervisor.load_s if supervisor.load_s else 0.0,
        "deliveries_per_core_s": counted / cpu_s if cpu_s else 0.0,
        **latencies(samples, supervisor.disturbed()),
        "pending_max": max((result["pending_max"] for result in found), default=0),
        "pending_bound": (supervisor.members_max - 1) * cluster.window,
        "links_max": max((result["links"] for result in found), default=0),
        "views": supervisor.views,
        "restarts": supervisor.restarts,
        "joins": supervisor.joins,
        "members_at_end": sorted(one.name for one in current),
        "view_change_ms": {
            "p50": quantile_ms(changes_us, 0.50),
            "p99": quantile_ms(changes_us, 0.99),
        },
        "states": len(states),
        "ended": {name: result["ended"] for name, result in results.items()},
        "hung": hung,
        "unexpected": unexpected,
        "problems": supervisor.problems,
        "reconnections": sum(result["reconnections"] for result in found),
        "evictions": len(supervisor.lost),
        "faults": supervisor.faults(),
        "wall_s": took_s,
        **{name: report[name] for name in ("violations", "lost", "duplicates", "phantom")},
        "witnesses": [witness["sentence"] for witness in report["witnesses"]],
        "view_findings": report["view_findings"],
    }
