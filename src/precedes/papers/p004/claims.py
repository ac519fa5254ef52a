"""The figures of Wilhelm et al. 2020, sections V-A to V-D, and what is measured besides."""

from __future__ import annotations

from typing import Final

from precedes.papers.claims import (
    About,
    Claim,
    at_most,
    finding,
    irreproducible,
    same_order,
    same_sign,
    within,
)
from precedes.papers.measured import Results, measure, select
from precedes.papers.p004 import PAPER
from precedes.papers.p004.experiments import BANDWIDTHS, HIGH, PROTOCOLS, UNKNOWN_RADIO
from precedes.papers.p004.metrics import delay_s, extra, peak, recovery_s, static
from precedes.papers.p004.published import PUBLISHED

TCP: Final = "the gap to TCP-Flooding hangs on the bandwidth, which is not published: see the curve"
BYTES: Final = "700 datagrams of 148 bytes are 0.1 MB: 4.3 MB would be 6 kB a message"
MEMORY: Final = (
    "a station must remember every host that it ever heard of (32 bytes), or an old join or init "
    "makes a second record; the paper's algorithm does not, and fails"
)


def claims(results: Results) -> list[Claim]:
    """The figures of sections V-A to V-D, and what is measured besides."""
    return [
        *_static_claims(results),
        *_load_claims(results),
        *_walking_claims(results),
        *_fault_claims(results),
        *_size_claims(results),
        *_bandwidth_claims(results),
    ]


def _static_claims(results: Results) -> list[Claim]:
    found = []
    for protocol in PROTOCOLS:
        item = "Section V-A, 5.6 per s"
        printed = PUBLISHED[item][protocol]
        reason = UNKNOWN_RADIO if protocol == "mobile" else TCP
        for key, read, rounding in (
            ("delay_s", delay_s, 0.005 if protocol == "mobile" else 0.5),
            ("messages_per_delivery", extra("messages_per_delivery"), 0.05),
            ("collisions", extra("collisions_intended"), 0.005),
        ):
            found.append(
                within(
                    About(PAPER, item, f"{protocol}, {key}, 6 Mb/s"),
                    published=printed[key],
                    measured=static(results, protocol, read),
                    rounding=rounding,
                    reason=reason,
                )
            )
        found.append(
            at_most(
                About(PAPER, item, f"{protocol}, messages out of order at a host"),
                published=printed["early_below"],
                measured=static(results, protocol, extra("early_mean")),
                reason=reason,
            )
        )
        found.append(
            finding(
                About(PAPER, item, f"{protocol}, lost at any antenna in reach"),
                measured=static(results, protocol, extra("collisions_all")),
            )
        )
    return found


def _load_claims(results: Results) -> list[Claim]:
    item = "Section V-A, 35 per s"
    runs = select(results["load"], rate=HIGH)
    found = [
        within(
            About(PAPER, item, key),
            published=PUBLISHED[item][key],
            measured=measure(read, runs),
            rounding=rounding,
            reason=UNKNOWN_RADIO,
        )
        for key, read, rounding in (
            ("delay_s", delay_s, 0.005),
            ("stored", extra("stored_mean"), 0.5),
            ("early", extra("early_mean"), 0.5),
            ("sent_per_s", extra("sent_per_s"), 50.0),
        )
    ]
    found.append(
        irreproducible(
            About(PAPER, item, "bytes_per_s"),
            published=PUBLISHED[item]["bytes_per_s"],
            measured=measure(extra("bytes_per_s"), runs),
            reason=BYTES,
        )
    )
    found.append(
        finding(
            About(PAPER, item, "bytes of the protocol in a datagram, on average"),
            measured=measure(extra("control_bytes_per_datagram"), runs),
        )
    )
    return found


def _walking_claims(results: Results) -> list[Claim]:
    item = "Section V-B"
    printed = PUBLISHED[item]
    standing = select(results["walking"], mobility="static")
    walking = select(results["walking"], mobility="waypoint")
    low, high = printed["collisions"]
    return [
        within(
            About(PAPER, item, "delay_s"),
            published=printed["delay_s"],
            measured=measure(delay_s, walking),
            rounding=0.05,
            reason=UNKNOWN_RADIO,
        ),
        same_sign(
            About(PAPER, item, "delay that walking adds, in s"),
            published=printed["penalty_s"],
            measured=measure(lambda one, other: delay_s(one) - delay_s(other), walking, standing),
            reason="the paper gives no interval",
        ),
        within(
            About(PAPER, item, "collisions"),
            published=(low + high) / 2,
            measured=measure(extra("collisions_intended"), walking),
            rounding=(high - low) / 2,
            reason=UNKNOWN_RADIO,
        ),
        at_most(
            About(PAPER, item, "own messages not acknowledged at a host"),
            published=printed["buffers"][1],
            measured=measure(extra("unacknowledged_mean"), walking),
            reason="an acknowledgement waits 0.5 s for others to share it",
        ),
        at_most(
            About(PAPER, item, "messages of a host out of order at its station"),
            published=printed["buffers"][1],
            measured=measure(extra("station_early_mean"), walking),
        ),
        finding(
            About(PAPER, item, "violations of causal order"),
            measured=measure(lambda run: float(run["violations"]["deliveries"]), walking),
        ),
    ]


def _fault_claims(results: Results) -> list[Claim]:
    item = "Section V-C"
    runs = results["faults"]
    lengths_s = PUBLISHED[item]["lengths_s"]
    numbers = range(len(lengths_s))
    found = [
        same_order(
            About(PAPER, item, "the longer a fault, the more its station stores: peaks"),
            published=lengths_s,
            measured=[measure(lambda run, n=n: peak(run, n), runs) for n in numbers],
            reason="published are the lengths in s; the peaks are in a figure",
        )
    ]
    for number in numbers:
        found.append(
            finding(
                About(PAPER, item, f"s until the station is as before, fault {number + 1}"),
                measured=measure(lambda run, n=number: recovery_s(run, n), runs),
            )
        )
    return found


def _size_claims(results: Results) -> list[Claim]:
    item = "Section V-D"
    found = []
    for run in results["size"]:
        about = f"{run['nodes']} hosts on {run['scenario']['parameters']['stations']} stations"
        for what, name in (("station", "station_bytes_max"), ("host", "host_bytes_max")):
            found.append(
                finding(
                    About(PAPER, item, f"bytes of the largest {what}, {about}"),
                    measured=measure(extra(name), [run]),
                    reason=MEMORY if what == "station" else "",
                )
            )
    return found


def _bandwidth_claims(results: Results) -> list[Claim]:
    found = []
    for bandwidth in BANDWIDTHS:
        runs = [
            select(results["bandwidth"], protocol=protocol, bandwidth_bps=bandwidth)
            for protocol in reversed(PROTOCOLS)
        ]
        found.append(
            finding(
                About(
                    PAPER, "Bandwidth", f"delay of flooding by that of mobile, {bandwidth:g} b/s"
                ),
                measured=measure(lambda one, other: delay_s(one) / delay_s(other), *runs),
                reason="the paper's factor is 10 at an unknown bandwidth",
            )
        )
    return found
