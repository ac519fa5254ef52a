"""The kinds of random schedules that the swarm has: each is a function of a seed that judges it.

A schedule is run compiled and judged by the exact audit, whose counts must be those of the
simulator's oracle, and by what its protocol promises. Every ``EVERY``-th is also run interpreted,
with next to no room, twice, and with its packets: ``precedes.testing.check_scenario``.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from precedes.audit import audit
from precedes.registry import linked, load
from precedes.testing import (
    check_agreement,
    check_same,
    check_scenario,
    observe,
    random_scenario,
)
from precedes.testing.conformance import check_promises
from tests.support import crashing, dcs_stress, specs, vcube_checks
from tests.support.mobile import options, world
from tests.support.mobile.oracle import history_of
from tests.support.swarm import live_schedules, radio_schedules
from tests.support.swarm.counts import Schedule

EVERY = 21  # odd: hostile networks, which odd seeds have, take their turn
SHARES = 100_000
LARGE = (64, 100, 127, 128)


@dataclass(frozen=True)
class Family:
    """Schedules of one protocol that are drawn and judged in the same way."""

    name: str
    protocol: str
    check: Callable[[int, Path], Schedule]
    share: int  # of a hundred thousand schedules
    turn: int  # schedules that take about a second
    compiled: bool = True  # its engine, before the first of them
    # Whether hundreds of schedules have some that break causal order; None: that is not known.
    is_mixed: bool | None = None


def _passed(seen):
    return Schedule(seen.report.deliveries, seen.report.violations)


def any_network(protocol, seed, directory, *, tier="compiled"):
    """Odd seeds: whatever the network loses, repeats or cuts; others: as the protocol assumes."""
    scenario = random_scenario(protocol, seed, hostile=seed % 2 == 1)
    if seed % EVERY == 0:
        seen = check_scenario(scenario, compiled=tier == "compiled")
    else:
        seen = observe(scenario, tier=tier)
        check_agreement(seen)
    check_promises(scenario, seen)
    if load(protocol).guarantee == "causal":
        assert seen.report.violations == 0, seen.report.witnesses
    return _passed(seen)


def as_specified(protocol, seed, directory):
    """The compiled protocol and its specification agree, packet for packet."""
    compiled, spec = specs.schedule(protocol, seed)
    return _passed(check_same(compiled, spec))


def bundled_crashes(seed, directory):
    """Exactly once and one completion, however many crash."""
    return Schedule(crashing.check(crashing.schedule(seed)).deliveries)


def bundled_tests(seed, directory):
    """The same in a synchronous network, where tests find crashes and make no mistakes."""
    scenario = crashing.schedule(seed)
    parameters = {**scenario.parameters, "tests": True, "rounds": 200}
    synchronous = scenario.replace(
        delay="uniform:0.1:1", per="use", transmission_ms=0.01, parameters=parameters
    )
    return Schedule(crashing.check(synchronous).deliveries)


def dcs_in_a_hurry(detector, seed, directory):
    """Components that come and go faster than messages settle."""
    result = dcs_stress.check(seed, detector=detector)
    return Schedule(result.deliveries, result.violations.deliveries)


def dcs_pulses(seed, directory):
    """Messages few and far between; odd seeds hold those of one link back for seconds."""
    made, result = dcs_stress.run(dcs_stress.pulses(seed))
    dcs_stress.check_at_rest(made, result)
    return Schedule(result.deliveries, result.violations.deliveries)


def vcube_calm(seed, directory):
    """Any size of group up to 128; every twentieth is a large one."""
    large = {"nodes": LARGE[seed // 20 % 4], "workload": "window:300"}
    scenario = vcube_checks.scenario(seed, **(large if seed % 20 == 0 else {}))
    seen = observe(scenario, packets=True)
    vcube_checks.check_everything(scenario, seen)
    return _passed(seen)


def vcube_survivors(make, seed, directory):
    """Whoever survives crashes has delivered what the other survivors have."""
    scenario = make(seed)
    seen = observe(scenario)
    vcube_checks.check_survivors(scenario, seen)
    return _passed(seen)


def mobile_adversary(seed, directory):
    """The oracle judges every step, the audit the events of the whole."""
    done = world.run(seed)
    report = audit(history_of(done.oracle, done.options.hosts))
    wrong = report.violations + report.duplicates + report.phantom + report.lost
    assert wrong == 0, report.witnesses
    return Schedule(done.oracle.deliveries)


def mobile_leases(seed, directory):
    """Hosts that are silent for longer than their lease are expelled, and nothing breaks."""
    return Schedule(world.run(seed, options=options.leased).oracle.deliveries)


_SHARES = {"vector": 10_500, "hashed": 10_500, "vcube": 7_000}


def of_file(path):
    """Schedules of a protocol of somebody's own, on any network: interpreted, so at once."""
    return Family(
        name=path,
        protocol=Path(path).stem,
        check=functools.partial(any_network, path, tier="interpreted"),
        share=SHARES,
        turn=10,
        compiled=False,
    )


def _families():
    for protocol in linked():
        check = functools.partial(any_network, protocol)
        is_mixed = load(protocol).guarantee != "causal"
        share = _SHARES.get(protocol, 6_000)
        yield Family(protocol, protocol, check, share, 80, is_mixed=is_mixed)
    for protocol in specs.SPECS:
        check = functools.partial(as_specified, protocol)
        yield Family(f"{protocol}-spec", protocol, check, 500, 30)
    yield Family("bundled-crashes", "bundled", bundled_crashes, 8_000, 150)
    yield Family("bundled-tests", "bundled", bundled_tests, 1_300, 50)
    for detector, share in (("none", 3_000), ("hash", 3_000)):
        check = functools.partial(dcs_in_a_hurry, detector)
        yield Family(f"dcs-{detector}", "dcs", check, share, 40)
    yield Family("dcs-pulses", "dcs", dcs_pulses, 1_000, 40)
    yield Family("vcube-calm", "vcube", vcube_calm, 5_000, 100)
    for make in (vcube_checks.with_crashes, vcube_checks.with_few_left):
        check = functools.partial(vcube_survivors, make)
        yield Family(f"vcube-{make.__name__.replace('_', '-')}", "vcube", check, 3_000, 150)
    yield Family("mobile-adversary", "mobile", mobile_adversary, 6_000, 30, compiled=False)
    yield Family("mobile-leases", "mobile", mobile_leases, 1_500, 30, compiled=False)
    for protocol, share, turn in (("mobile", 2_000, 15), ("flooding", 1_800, 60)):
        check = functools.partial(radio_schedules.check, protocol)
        yield Family(f"{protocol}-radio", protocol, check, share, turn, compiled=False)
    for protocol in live_schedules.PROTOCOLS:
        check = functools.partial(live_schedules.check, protocol)
        yield Family(f"live-{protocol}", protocol, check, 100, 3, compiled=False)


FAMILIES = {family.name: family for family in _families()}
