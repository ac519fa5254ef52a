"""Random runs on the simulator's radio: collisions, losses, hosts that move, leave and come back.

The audit judges the trace that was written, and must count what the simulator's oracle counts.
"""

import random

from precedes.audit import audit
from precedes.errors import UserError
from precedes.registry import load
from precedes.sim import Fault, Scenario, simulate
from precedes.trace import read_trace
from tests.support.swarm.counts import Schedule

AREA_M = 400.0  # a walk leads out of every station's reach now and then
WALKS = ("static", "waypoint", "pingpong", "file")


def scenario(protocol, seed, directory):
    """The scenario of a seed; a walk of hosts that leave the reach is a file in ``directory``."""
    rng = random.Random(f"radio {seed}")
    nodes = rng.choice((2, 3, 5, 8, 12))
    messages = rng.choice((5, 20, 50))
    parameters = {
        "stations": rng.choice((1, 2, 3, 7)),
        "spacing_m": rng.choice((100.0, 150.0, 190.0)),
        "mac": rng.choice(("aloha", "csma")),
        "half_duplex": rng.random() < 0.3,
        "tree": rng.choice(("star", "line", "grid")),
        "joins_s": 0.1,
        "warm_up_s": 0.0,
        # Timeouts of TCP double up to 4 minutes, many times over where a third is lost; hosts that
        # move or have crashed never fall silent.
        "drain_s": 20_000.0 if protocol == "flooding" else 60.0,
    }
    faults = ()
    if protocol != "flooding":
        walk = rng.choice(WALKS)
        parameters["mobility"] = walk if walk != "file" else f"file:{_walk(rng, nodes, directory)}"
        parameters["speed_m_per_s"] = rng.choice((1.38, 25.0, 100.0))
        parameters["step_ms"] = 100.0
        parameters["lease_s"] = rng.choice((0.0, 0.0, 1.0))
        parameters["selective"] = rng.random() < 0.3
        faults = tuple(_faults(rng, nodes))
        leaves = random.Random(f"leaves {seed}")
        parameters["leave_every_s"] = leaves.choice((0.0, 0.0, 0.0, 0.3, 1.0))
        parameters["away_s"] = leaves.choice((0.0, 0.2, 1.0))
    if parameters["mac"] == "csma":
        parameters["mac_retries"] = random.Random(f"retries {seed}").choice((0, 0, 7))
    return Scenario(
        protocol=protocol,
        nodes=nodes,
        messages=messages,
        rate=rng.choice((5.0, 20.0)),
        loss=rng.choice((0.0, 0.0, 0.1, 0.3)),
        faults=faults,
        seed=seed,
        parameters=parameters,
    )


def _faults(rng, nodes):
    if rng.random() < 0.3:
        for_s = rng.uniform(0.1, 2.0)
        yield Fault("pause", node=rng.randrange(nodes), at_s=rng.uniform(0.2, 2.0), for_s=for_s)
    if rng.random() < 0.15:
        yield Fault("crash", node=rng.randrange(nodes), at_s=rng.uniform(0.2, 2.0))


def _walk(rng, nodes, directory):
    """Legs of a second between random places; after ten seconds all stand at the first station."""
    path = directory / "walk.csv"
    rows = []
    for host in range(nodes):
        for second in range(10):
            x_m, y_m = (rng.uniform(-AREA_M, AREA_M) for _ in range(2))
            rows.append(f"{second},{host},{x_m:.1f},{y_m:.1f}\n")
        rows.append(f"10,{host},{rng.uniform(-20, 20):.1f},{rng.uniform(-20, 20):.1f}\n")
    path.write_text("".join(rows))
    return path


def check(protocol, seed, directory):
    """Run the schedule of a seed and judge it."""
    drawn = scenario(protocol, seed, directory)
    path = directory / "radio.parquet"
    try:
        result = simulate(drawn, trace=path)
    except UserError as error:
        if "broadcasts happened" not in str(error):
            raise
        return Schedule()  # all had lost their requests to join, or were away
    (history,) = read_trace(path)
    report = audit(history)
    counted = (result.deliveries, result.violations.deliveries, result.duplicates, result.lost)
    lost = report.lost + report.undelivered_at_end
    audited = (report.deliveries, report.violations, report.duplicates, lost)
    assert counted == audited, f"{counted} by the simulator, {audited} by the audit"
    assert report.phantom == report.cycles == report.duplicates == 0, report.witnesses
    assert load(protocol).guarantee != "causal" or report.violations == 0, report.witnesses
    # Who moves through many cells a second may take longer; who has crashed delivers nothing.
    mobility = drawn.parameters.get("mobility", "static")
    comes_to_rest = mobility not in ("waypoint", "pingpong") and not drawn.parameters.get("lease_s")
    is_due = result.complete or comes_to_rest
    has_crashed = any(fault.kind == "crash" for fault in drawn.faults)
    assert result.lost == 0 or has_crashed or not is_due, f"{result.lost} never came"
    return Schedule(result.deliveries, report.violations)
